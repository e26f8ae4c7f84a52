package main

// Rules bend single calls: refused, slow, not arrived, or done with the answer lost.

import (
	"net/http"
	"time"
)

type rule struct {
	Method string `json:"method"`
	User   string `json:"user"` // empty: everybody
	Skip   int    `json:"skip"` // so many calls pass first
	Times  int    `json:"times"`
	Action string `json:"action"` // fault, status, delay, slow, drop_before, drop_after, late
	Fault  string `json:"fault"`
	Detail string `json:"detail"`
	Status int    `json:"status"`
	MS     int    `json:"ms"`
}

type bending struct {
	first   *rule // decides what the caller sees instead of an answer
	delay   int
	late    int
	slow    int
	dropped bool
}

func (f *front) bend(method, user string) bending {
	f.turn.Lock()
	defer f.turn.Unlock()
	found := bending{}
	for _, one := range f.rules {
		if one.Method != method || one.Times == 0 || (one.User != "" && one.User != user) {
			continue
		}
		if one.Skip > 0 {
			one.Skip--
			continue
		}
		one.Times--
		switch one.Action {
		case "delay":
			found.delay = one.MS
		case "late":
			found.late = one.MS
		case "slow":
			found.slow = one.MS
		case "drop_after":
			found.dropped = true
		default:
			found.first = one
		}
	}
	return found
}

// before says whether the call goes on to the simulator.
func (b bending) before(w http.ResponseWriter) bool {
	time.Sleep(time.Duration(b.delay) * time.Millisecond)
	if b.first == nil {
		return true
	}
	switch b.first.Action {
	case "drop_before":
		hangUp(w)
	case "status":
		w.WriteHeader(b.first.Status)
	default:
		writeFault(w, b.first.Fault, b.first.Detail)
	}
	return false
}
