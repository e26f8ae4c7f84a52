package main

// What a vCenter refuses or does and the simulator does not: requests against declared types, duplicate names, new DRS
// groups without members, VM-VM rules of one VM, VMs without a host where there is no DRS, clones of the asked size; and a small DRS, since the simulator places without looking at rules.

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

type strict struct {
	making  sync.Mutex // one creation at a time: name checks must not race
	placing sync.Mutex
}

var (
	thisRef = regexp.MustCompile(`<_this[^>]*type="(\w+)"[^>]*>([^<]*)`)
	cpus    = regexp.MustCompile(`<numCPUs[^>]*>(\d+)`)
	memory  = regexp.MustCompile(`<memoryMB[^>]*>(\d+)`)
)

// answer says whether it answered in the simulator's place.
func (s *strict) answer(w http.ResponseWriter, user, method string, body []byte) bool {
	if refusedRequest(w, method, body) || denied(w, user, method, body) {
		return true
	}
	switch method {
	case "ReconfigureComputeResource_Task":
		return refusedRules(w, body)
	case "PowerOnVM_Task":
		return s.place(w, this(body))
	case "HasPrivilegeOnEntities":
		return answerPrivileges(w, user, body)
	case "QueryVirtualDiskUuid":
		return queryUUID(w, body)
	case "ExtendVirtualDisk_Task":
		return extend(w, body)
	}
	return false
}

// around runs the simulator's own answer inside what it lacks.
func (s *strict) around(w http.ResponseWriter, method string, body []byte, run func()) {
	switch method {
	case "CreateVM_Task", "CloneVM_Task", "ImportVApp":
		s.making.Lock()
		defer s.making.Unlock()
		if !refusedName(w, body) && !refusedWithoutHost(w, method, body) {
			s.create(method, body, run)
		}
	case "ReconfigureComputeResource_Task":
		run()
		finish(this(body), body)
	default:
		run()
	}
}

func (s *strict) create(method string, body []byte, run func()) {
	before := known()
	repair := func() {}
	if method == "CloneVM_Task" {
		repair = keepDevices(this(body))
	}
	run()
	repair()
	now := time.Now()
	for ref, vm := range vms() {
		if before[ref] {
			continue
		}
		vm.Config.CreateDate = &now
		if method == "CloneVM_Task" {
			resize(vm, body)
		}
	}
}

// refusedName says whether the folder has a child of this name; the simulator would make a second.
func refusedName(w http.ResponseWriter, body []byte) bool {
	folder, name := destination(body)
	parent, ok := registry().Get(folder).(*simulator.Folder)
	if !ok || registry().FindByName(name, parent.ChildEntity) == nil {
		return false
	}
	writeFault(w, "DuplicateName", fmt.Sprintf("<name>%s</name><object type=\"Folder\">%s</object>", name, folder.Value))
	return true
}

// refusedWithoutHost says whether a VM would come to a cluster that has no DRS to choose its host.
func refusedWithoutHost(w http.ResponseWriter, method string, body []byte) bool {
	pool, host := target(body)
	if pool == nil || host != nil {
		return false
	}
	cluster, ok := registry().Get(owner(*pool)).(*simulator.ClusterComputeResource)
	if !ok {
		return false
	}
	drs := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx).DrsConfig.Enabled
	if drs == nil || *drs {
		return false
	}
	writeFault(w, "InvalidArgument", "<invalidProperty>host</invalidProperty>")
	return true
}

// target is the resource pool and the host that a request asks for.
func target(body []byte) (*ref, *ref) {
	decoded, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if err != nil {
		return nil, nil
	}
	switch request := decoded.Body.(type) {
	case *types.CreateVM_Task:
		return &request.Pool, request.Host
	case *types.CloneVM_Task:
		return request.Spec.Location.Pool, request.Spec.Location.Host
	case *types.ImportVApp:
		return &request.This, request.Host
	}
	return nil, nil
}

func owner(pool ref) ref {
	if found, ok := registry().Get(pool).(*simulator.ResourcePool); ok {
		return found.Owner
	}
	return ref{}
}

func destination(body []byte) (ref, string) {
	decoded, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if err != nil {
		return ref{}, ""
	}
	switch request := decoded.Body.(type) {
	case *types.CreateVM_Task:
		return request.This, request.Config.Name
	case *types.CloneVM_Task:
		return request.Folder, request.Name
	case *types.ImportVApp:
		if spec, ok := request.Spec.(*types.VirtualMachineImportSpec); ok && request.Folder != nil {
			return *request.Folder, spec.ConfigSpec.Name
		}
	}
	return ref{}, ""
}

func this(body []byte) ref {
	found := thisRef.FindSubmatch(body)
	if found == nil {
		return ref{}
	}
	return ref{Type: string(found[1]), Value: string(found[2])}
}

func vms() map[ref]*simulator.VirtualMachine {
	found := map[ref]*simulator.VirtualMachine{}
	for _, one := range registry().All("VirtualMachine") {
		if vm, ok := one.(*simulator.VirtualMachine); ok {
			found[vm.Self] = vm
		}
	}
	return found
}

func known() map[ref]bool {
	found := map[ref]bool{}
	for ref := range vms() {
		found[ref] = true
	}
	return found
}

// keepDevices undoes what a clone does to its source: the simulator hands the source's own devices to the clone.
func keepDevices(source ref) func() {
	vm, ok := registry().Get(source).(*simulator.VirtualMachine)
	if !ok {
		return func() {}
	}
	saved := copied(vm.Config.Hardware.Device).([]types.BaseVirtualDevice)
	return func() { vm.Config.Hardware.Device = saved }
}

func resize(vm *simulator.VirtualMachine, body []byte) {
	if found := cpus.FindSubmatch(body); found != nil {
		n, _ := strconv.Atoi(string(found[1]))
		vm.Config.Hardware.NumCPU = int32(n)
	}
	if found := memory.FindSubmatch(body); found != nil {
		n, _ := strconv.Atoi(string(found[1]))
		vm.Config.Hardware.MemoryMB = int32(n)
	}
}
