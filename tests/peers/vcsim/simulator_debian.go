//go:build !newest

package main

// What differs between releases of the simulator: the one that Debian packages.

import (
	"net/http/httptest"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

func attach(*simulator.Model) {}

func registry() *simulator.Registry { return simulator.Map }

func update(object mo.Reference, changes []types.PropertyChange) {
	simulator.Map.Update(object, changes)
}

func remove(target ref) { simulator.Map.Remove(target) }

func withLock(object mo.Reference, run func()) { simulator.Map.WithLock(object, run) }

// finished is the id of a task that has run.
func finished(task *simulator.Task) string { return task.Run().Value }

// started is the id of a task that runs on.
func started(task *simulator.Task) string {
	go task.Run()
	return task.Self.Value
}

// settle waits for what a request has begun: here tasks have run when they are answered.
func settle(*httptest.ResponseRecorder) {}

func withPlainName(_ string, body []byte) []byte { return body }

func withoutHost(answer []byte) []byte { return answer }

func permissions(at ref) []types.Permission {
	answer := authorization().RetrieveEntityPermissions(&types.RetrieveEntityPermissions{Entity: at})
	return answer.(*methods.RetrieveEntityPermissionsBody).Res.Returnval
}

func (scrubber) PutObject(mo.Reference)                            {}
func (scrubber) UpdateObject(mo.Reference, []types.PropertyChange) {}
func (scrubber) RemoveObject(gone types.ManagedObjectReference)    { scrub(gone) }
