package main

// Sizes of disks: the simulator keeps none, and cannot extend a disk.

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

var (
	taskRef = regexp.MustCompile(`<returnval[^>]*type="Task"[^>]*>([^<]*)`)
	sizes   = struct {
		sync.Mutex
		kb map[string]int64
	}{kb: map[string]int64{}}
)

// noteDisks keeps book of what a successful request did to a disk.
func noteDisks(method string, body []byte, answer *httptest.ResponseRecorder) {
	switch method {
	case "CreateVirtualDisk_Task", "CopyVirtualDisk_Task", "SearchDatastore_Task":
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
	task, ok := simulator.Map.Get(ref{Type: "Task", Value: string(found[1])}).(*simulator.Task)
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
	}).Run()
	writeAnswer(w, fmt.Sprintf("<ExtendVirtualDisk_TaskResponse xmlns=\"urn:vim25\"><returnval type=\"Task\">%s</returnval>"+
		"</ExtendVirtualDisk_TaskResponse>", task.Value))
	return true
}
