//go:build newest

package main

// What differs between releases of the simulator: the newest one, whose tasks run beside the answer.

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

var world *simulator.Context

func attach(m *simulator.Model) { world = m.Service.Context }

func registry() *simulator.Registry { return world.Map }

func update(object mo.Reference, changes []types.PropertyChange) {
	world.Map.AtomicUpdate(world, object, changes)
}

func remove(target ref) { world.Map.Remove(world, target) }

func withLock(object mo.Reference, run func()) { world.Map.WithLock(world, object, run) }

func finished(task *simulator.Task) string {
	id := task.Run(world).Value
	task.Wait()
	return id
}

func started(task *simulator.Task) string { return task.Run(world).Value }

// settle waits for the task that a request has begun, since the front adds to what it has done.
func settle(answer *httptest.ResponseRecorder) {
	found := taskRef.FindSubmatch(answer.Body.Bytes())
	if found == nil {
		return
	}
	for i := 0; i < 30000; i++ {
		task, ok := world.Map.Get(ref{Type: "Task", Value: string(found[1])}).(*simulator.Task)
		if !ok {
			return
		}
		if state := task.Info.State; state == types.TaskInfoStateSuccess || state == types.TaskInfoStateError {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

var (
	folderName = regexp.MustCompile(`<name[^>]*>[^<]*</name>`)
	escaped    = strings.NewReplacer("%2f", "/", "%2F", "/", "%5c", "\\", "%5C", "\\", "%25", "%")
	leaseHost  = regexp.MustCompile(`<url>https?://[^/<]*/nfc/`)
)

// withPlainName undoes what a client has escaped in the name of a folder. The API takes an escape sequence as it is;
// the simulator escapes it once more.
func withPlainName(method string, body []byte) []byte {
	if method != "CreateFolder" {
		return body
	}
	return folderName.ReplaceAllFunc(body, func(name []byte) []byte {
		return []byte(escaped.Replace(string(name)))
	})
}

// withoutHost lets clients upload where they are connected to: the simulator names its own port behind a TLS door.
func withoutHost(answer []byte) []byte { return leaseHost.ReplaceAll(answer, []byte("<url>https://*/nfc/")) }

func permissions(at ref) []types.Permission {
	answer := authorization().RetrieveEntityPermissions(world, &types.RetrieveEntityPermissions{Entity: at})
	return answer.(*methods.RetrieveEntityPermissionsBody).Res.Returnval
}

func (scrubber) PutObject(*simulator.Context, mo.Reference)                            {}
func (scrubber) UpdateObject(*simulator.Context, mo.Reference, []types.PropertyChange) {}
func (scrubber) RemoveObject(_ *simulator.Context, gone types.ManagedObjectReference)  { scrub(gone) }
