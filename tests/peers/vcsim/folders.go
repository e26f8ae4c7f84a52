package main

// UnregisterAndDestroy, which the simulator does not know: Destroy, with the folders below going first. Its own
// Destroy forgets them.

import (
	"bytes"

	"github.com/vmware/govmomi/simulator"
)

const unregister = "UnregisterAndDestroy_Task"

func asDestroy(method string, body []byte) []byte {
	if method != unregister {
		return body
	}
	if folder, ok := registry().Get(this(body)).(*simulator.Folder); ok {
		forgetBelow(folder)
	}
	return bytes.ReplaceAll(body, []byte(unregister), []byte("Destroy_Task"))
}

func forgetBelow(folder *simulator.Folder) {
	for _, child := range folder.ChildEntity {
		if below, ok := registry().Get(child).(*simulator.Folder); ok {
			forgetBelow(below)
			remove(child)
		}
	}
}

// asUnregister undoes in the answer what asDestroy did to the request.
func asUnregister(method string, answer []byte) []byte {
	if method != unregister {
		return answer
	}
	return bytes.ReplaceAll(answer, []byte("Destroy_TaskResponse"), []byte("UnregisterAndDestroy_TaskResponse"))
}
