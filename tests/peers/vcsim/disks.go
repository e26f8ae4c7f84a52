package main

// Sizes of disks: the simulator keeps none, and cannot extend a disk.

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

var (
	taskRef  = regexp.MustCompile(`<returnval[^>]*type="Task"[^>]*>([^<]*)`)
	diskName = regexp.MustCompile(`<name[^>]*>([^<]*)`)
	sizes    = struct {
		sync.Mutex
		kb  map[string]int64
		ids map[string]string // path → uuid of the virtual disk, which goes where its file is moved
	}{kb: map[string]int64{}, ids: map[string]string{}}
	namespace string // the folder's name that a vSAN datastore shows instead of `coterie`; empty: none
)

// plainPath is the path of a file that was named by its namespace.
func plainPath(path string) string {
	if namespace == "" {
		return path
	}
	return strings.Replace(path, "] "+namespace+"/", "] coterie/", 1)
}

func diskID(path string) string {
	if sizes.ids[path] == "" {
		sizes.ids[path] = uuid.New().String()
	}
	return sizes.ids[path]
}

func queryUUID(w http.ResponseWriter, body []byte) bool {
	found := diskName.FindSubmatch(body)
	if found == nil {
		return false
	}
	sizes.Lock()
	defer sizes.Unlock()
	writeAnswer(w, "<QueryVirtualDiskUuidResponse xmlns=\"urn:vim25\"><returnval>"+
		strings.ToUpper(diskID(plainPath(string(found[1]))))+"</returnval></QueryVirtualDiskUuidResponse>")
	return true
}

// noteUUIDs gives the disks of a VM the uuids of their files.
func noteUUIDs(target ref) {
	vm, ok := registry().Get(target).(*simulator.VirtualMachine)
	if !ok {
		return
	}
	sizes.Lock()
	defer sizes.Unlock()
	for _, device := range vm.Config.Hardware.Device {
		disk, ok := device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			backing.Uuid = diskID(backing.FileName)
		}
	}
}

// noteDisks keeps book of what a successful request did to a disk.
func noteDisks(method string, body []byte, answer *httptest.ResponseRecorder) {
	switch method {
	case "ReconfigVM_Task":
		noteUUIDs(this(body))
		return
	case "CreateVirtualDisk_Task", "CopyVirtualDisk_Task", "MoveVirtualDisk_Task", "SearchDatastore_Task":
	default:
		return
	}
	decoded, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if err != nil {
		return
	}
	sizes.Lock()
	defer sizes.Unlock()
	switch request := decoded.Body.(type) {
	case *types.CreateVirtualDisk_Task:
		if spec, ok := request.Spec.(*types.FileBackedVirtualDiskSpec); ok {
			sizes.kb[request.Name] = spec.CapacityKb
		}
	case *types.CopyVirtualDisk_Task:
		sizes.kb[request.DestName] = sizes.kb[request.SourceName]
	case *types.MoveVirtualDisk_Task:
		sizes.kb[request.DestName], sizes.ids[request.DestName] = sizes.kb[request.SourceName], diskID(request.SourceName)
		delete(sizes.ids, request.SourceName)
	case *types.SearchDatastore_Task:
		fill(request.DatastorePath, answer)
	}
}

// fill writes the sizes into the result of a search.
func fill(folder string, answer *httptest.ResponseRecorder) {
	found := taskRef.FindSubmatch(answer.Body.Bytes())
	if found == nil {
		return
	}
	task, ok := registry().Get(ref{Type: "Task", Value: string(found[1])}).(*simulator.Task)
	if !ok {
		return
	}
	results, ok := task.Info.Result.(types.HostDatastoreBrowserSearchResults)
	if !ok {
		return
	}
	for i, one := range results.File {
		name := one.GetFileInfo().Path
		if !strings.HasSuffix(name, ".vmdk") {
			continue
		}
		info := &types.VmDiskFileInfo{FileInfo: *one.GetFileInfo()}
		info.CapacityKb = sizes.kb[folder+"/"+name]
		results.File[i] = info
	}
}

func extend(w http.ResponseWriter, body []byte) bool {
	decoded, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if err != nil {
		return false
	}
	request := decoded.Body.(*types.ExtendVirtualDisk_Task)
	task := simulator.CreateTask(request.This, "extendVirtualDisk", func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		sizes.Lock()
		defer sizes.Unlock()
		if _, ok := sizes.kb[request.Name]; !ok {
			return nil, &types.FileNotFound{FileFault: types.FileFault{File: request.Name}}
		}
		sizes.kb[request.Name] = request.NewCapacityKb
		return nil, nil
	})
	writeAnswer(w, fmt.Sprintf("<ExtendVirtualDisk_TaskResponse xmlns=\"urn:vim25\"><returnval type=\"Task\">%s</returnval>"+
		"</ExtendVirtualDisk_TaskResponse>", finished(task)))
	return true
}
