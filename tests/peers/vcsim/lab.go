package main

// The test's own door: rules, sessions, counters, and everything that is in the vCenter, seen past its API.

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

func (f *front) lab(w http.ResponseWriter, r *http.Request) {
	f.turn.Lock()
	defer f.turn.Unlock()
	var told interface{} = "done"
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, "/lab/") {
	case "POST rules":
		one := &rule{Times: 1}
		if err := json.NewDecoder(r.Body).Decode(one); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.rules = append(f.rules, one)
	case "DELETE rules":
		f.rules = nil
	case "POST expire":
		for session := range f.users {
			f.ended[session] = true
		}
	case "GET calls":
		told = append([]call{}, f.calls...)
	case "GET sessions":
		told = f.living()
	case "DELETE calls":
		f.calls = nil
	case "POST namespaces":
		namespace = "5f6c0a1e-7d2b-4a90-8a51-0c9be2d4f3a7"
	case "DELETE namespaces":
		namespace = ""
	case "POST local", "DELETE local":
		name, _ := io.ReadAll(r.Body)
		for _, one := range registry().All("Datastore") {
			if store := one.(*simulator.Datastore); strings.Trim(string(name), "\"") == store.Name {
				shared := r.Method == "DELETE"
				store.Summary.MultipleHostAccess = &shared
			}
		}
	case "GET last":
		told = f.last
	case "POST roles":
		enforced = true
	case "DELETE roles":
		enforced = false
	case "GET inventory":
		told = inventory()
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(told)
}

// living counts the sessions that nobody has ended.
func (f *front) living() int {
	found := 0
	for session := range f.users {
		if !f.ended[session] {
			found++
		}
	}
	return found
}

func inventory() [][2]string {
	found := [][2]string{}
	owned := map[string]bool{}
	for _, vm := range vms() {
		kind := "vm"
		if vm.Config.Template {
			kind = "image"
		}
		found = append(found, [2]string{kind, vm.Config.InstanceUuid})
		owned[path.Dir(vm.Config.Files.VmPathName)] = true
	}
	for _, one := range registry().All("Folder") {
		folder := one.(*simulator.Folder)
		found = append(found, [2]string{"folder", folder.Self.Value + " " + folder.Name})
	}
	for _, one := range registry().All("ClusterComputeResource") {
		cluster := one.(*simulator.ClusterComputeResource)
		config := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
		for _, group := range config.Group {
			found = append(found, [2]string{"server_group", cluster.Name + "/" + group.GetClusterGroupInfo().Name})
		}
		for _, rule := range config.Rule {
			found = append(found, [2]string{"rule", cluster.Name + "/" + rule.GetClusterRuleInfo().Name})
		}
	}
	return append(found, files(owned)...)
}

// files lists what lies on the datastores outside of the folders of VMs; a disk counts once.
func files(owned map[string]bool) [][2]string {
	found := [][2]string{}
	for _, one := range registry().All("Datastore") {
		datastore := one.(*simulator.Datastore)
		root := datastore.Info.GetDatastoreInfo().Url
		_ = filepath.Walk(root, func(at string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() || strings.HasSuffix(at, "-flat.vmdk") {
				return nil
			}
			name := "[" + datastore.Name + "] " + strings.TrimPrefix(strings.TrimPrefix(at, root), "/")
			if !owned[path.Dir(name)] {
				found = append(found, [2]string{"file", name})
			}
			return nil
		})
	}
	return found
}
