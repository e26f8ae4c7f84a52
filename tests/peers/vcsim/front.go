package main

// The front: sees every request before the simulator does, counts it, bends it as the test's rules say, and
// lets `strict` answer where the simulator would be milder than a vCenter.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

var (
	methodName = regexp.MustCompile(`<(?:\w+:)?Body[^>]*>\s*<(?:\w+:)?(\w+)`)
	userName   = regexp.MustCompile(`<(?:\w+:)?userName[^>]*>([^<]*)`)
	instanceID = regexp.MustCompile(`<instanceUuid[^>]*>([^<]*)`)
	searchedID = regexp.MustCompile(`<uuid[^>]*>([^<]*)`)
)

// A call that came in, and when, in microseconds: a test can tell what happened at the same time.
type call struct {
	Method  string `json:"method"`
	User    string `json:"user"`
	Session string `json:"session"`
	Began   int64  `json:"began"`
	Ended   int64  `json:"ended"`
}

type front struct {
	inner  http.Handler
	turn   sync.Mutex // of the fields below
	rules  []*rule
	users  map[string]string // session → who
	ended  map[string]bool
	calls  []call
	last   map[string]string    // method → its last request
	hidden map[string]time.Time // instance uuid → until when searches miss it
	strict *strict
}

func newFront(inner http.Handler) *front {
	return &front{
		inner: inner, users: map[string]string{}, ended: map[string]bool{},
		last: map[string]string{}, hidden: map[string]time.Time{}, strict: &strict{},
	}
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/lab/") {
		f.lab(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	method := r.Method
	if found := methodName.FindSubmatch(body); found != nil {
		method = string(found[1])
	}
	user, ended := f.session(r, method)
	defer f.note(call{method, user, sessionOf(r), time.Now().UnixMicro(), 0})
	if ended {
		writeFault(w, "NotAuthenticated", "<object type=\"Folder\">group-d1</object><privilegeId>System.View</privilegeId>")
		return
	}
	f.turn.Lock()
	f.last[method] = string(body)
	f.turn.Unlock()
	bent := f.bend(method, user)
	if !bent.before(w) {
		return
	}
	answer := httptest.NewRecorder()
	if !f.missed(answer, method, body) && !f.strict.answer(answer, user, method, body) {
		if bent.slow > 0 {
			f.runLater(answer, r, method, body, time.Duration(bent.slow)*time.Millisecond)
		} else {
			f.run(answer, r, method, body)
		}
	}
	f.remember(r, method, body, answer)
	if bent.late > 0 {
		f.hide(body, bent.late)
	}
	if bent.dropped {
		hangUp(w)
		return
	}
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(withoutHost(withNamespaces(method, asUnregister(method, answer.Body.Bytes()))))
}

func (f *front) run(answer *httptest.ResponseRecorder, r *http.Request, method string, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(withPlainName(method, asDestroy(method, body))))
	f.strict.around(answer, method, body, func() {
		f.inner.ServeHTTP(answer, r)
		settle(answer)
	})
	noteDisks(method, body, answer)
}

// runLater answers with a task that does its work only after a while, as in a busy vCenter.
func (f *front) runLater(w http.ResponseWriter, r *http.Request, method string, body []byte, pause time.Duration) {
	later := r.Clone(context.Background())
	run := func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		time.Sleep(pause)
		answer := httptest.NewRecorder()
		f.run(answer, later, method, body)
		found := taskRef.FindSubmatch(answer.Body.Bytes())
		if found == nil {
			return nil, &types.SystemError{Reason: answer.Body.String()}
		}
		done := registry().Get(ref{Type: "Task", Value: string(found[1])}).(*simulator.Task)
		if done.Info.Error != nil {
			return nil, done.Info.Error.Fault
		}
		return done.Info.Result, nil
	}
	// not of the object itself, which could not be read meanwhile
	task := simulator.CreateTask(registry().Get(*content().TaskManager), method, run)
	writeAnswer(w, fmt.Sprintf("<%sResponse xmlns=\"urn:vim25\"><returnval type=\"Task\">%s</returnval></%sResponse>",
		method, started(task), method))
}

// withNamespaces shows paths of VMs' disks as vSAN does: with the uuid of a namespace as folder.
func withNamespaces(method string, answer []byte) []byte {
	if namespace == "" || !strings.HasPrefix(method, "RetrieveProperties") {
		return answer
	}
	return bytes.ReplaceAll(answer, []byte("] coterie/"), []byte("] "+namespace+"/"))
}

// session says who calls, and whether that session was ended by the test.
func (f *front) session(r *http.Request, method string) (string, bool) {
	f.turn.Lock()
	defer f.turn.Unlock()
	session := sessionOf(r)
	if session == "" || method == "Login" || method == "RetrieveServiceContent" {
		return "", false
	}
	return f.users[session], f.ended[session]
}

func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(soap.SessionCookieName)
	if err != nil {
		return ""
	}
	return cookie.Value
}

func (f *front) note(one call) {
	one.Ended = time.Now().UnixMicro()
	f.turn.Lock()
	f.calls = append(f.calls, one)
	f.turn.Unlock()
}

func (f *front) remember(r *http.Request, method string, body []byte, answer *httptest.ResponseRecorder) {
	if method == "Logout" {
		f.turn.Lock()
		delete(f.users, sessionOf(r))
		f.turn.Unlock()
	}
	if method != "Login" || answer.Code != http.StatusOK {
		return
	}
	for _, cookie := range answer.Result().Cookies() {
		if found := userName.FindSubmatch(body); found != nil && cookie.Name == soap.SessionCookieName {
			f.turn.Lock()
			f.users[cookie.Value] = string(found[1])
			f.turn.Unlock()
		}
	}
}

// hide keeps what a request makes out of searches for a while, as a busy vCenter does.
func (f *front) hide(body []byte, ms int) {
	if found := instanceID.FindSubmatch(body); found != nil {
		f.turn.Lock()
		f.hidden[string(found[1])] = time.Now().Add(time.Duration(ms) * time.Millisecond)
		f.turn.Unlock()
	}
}

func (f *front) missed(w http.ResponseWriter, method string, body []byte) bool {
	found := searchedID.FindSubmatch(body)
	if method != "FindByUuid" || found == nil {
		return false
	}
	f.turn.Lock()
	until, ok := f.hidden[string(found[1])]
	f.turn.Unlock()
	if !ok || time.Now().After(until) {
		return false
	}
	writeAnswer(w, "<FindByUuidResponse xmlns=\"urn:vim25\"></FindByUuidResponse>")
	return true
}

const envelope = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope ` +
	`xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" ` +
	`xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>%s</soapenv:Body></soapenv:Envelope>`

func writeAnswer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, envelope, body)
}

func writeFault(w http.ResponseWriter, kind, detail string) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(http.StatusInternalServerError)
	fault := fmt.Sprintf(`<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>%s</faultstring>`+
		`<detail><%sFault xmlns="urn:vim25" xsi:type="%s">%s</%sFault></detail></soapenv:Fault>`,
		kind, kind, kind, detail, kind)
	fmt.Fprintf(w, envelope, fault)
}

func hangUp(w http.ResponseWriter) {
	if connection, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = connection.Close()
	}
}
