package main

// DRS groups and rules as a vCenter is said to take them: no group that is new and empty (one may be emptied later), no
// rule between fewer than two VMs, no rule about a group that is not there.

import (
	"net/http"
	"regexp"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// An edit replaces a group whole in the simulator; in a vCenter its identifier stays.
var identifiers = map[string]string{}

var drsSwitch = regexp.MustCompile(`<drsConfig>\s*<enabled>(true|false)`)

func refusedRules(w http.ResponseWriter, body []byte) bool {
	decoded, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if err != nil {
		return false
	}
	request, ok := decoded.Body.(*types.ReconfigureComputeResource_Task)
	if !ok {
		return false
	}
	cluster, known := registry().Get(request.This).(*simulator.ClusterComputeResource)
	spec, full := request.Spec.(*types.ClusterConfigSpecEx)
	if !known || !full {
		return false
	}
	if wrong := mistake(cluster.ConfigurationEx.(*types.ClusterConfigInfoEx), spec); wrong != "" {
		writeFault(w, "InvalidArgument", "<invalidProperty>"+wrong+"</invalidProperty>")
		return true
	}
	return false
}

// finish adds what the simulator leaves out: identifiers of groups, and the switch of DRS.
func finish(target ref, body []byte) {
	cluster, ok := registry().Get(target).(*simulator.ClusterComputeResource)
	if !ok {
		return
	}
	withLock(cluster, func() {
		config := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
		for _, one := range config.Group {
			info := one.GetClusterGroupInfo()
			key := cluster.Self.Value + "/" + info.Name
			if identifiers[key] == "" {
				identifiers[key] = uuid.New().String()
			}
			info.UniqueID = identifiers[key]
		}
		if found := drsSwitch.FindSubmatch(body); found != nil {
			on := string(found[1]) == "true"
			config.DrsConfig.Enabled = &on
		}
	})
}

func mistake(config *types.ClusterConfigInfoEx, spec *types.ClusterConfigSpecEx) string {
	coming := map[string]bool{}
	for _, one := range spec.GroupSpec {
		if one.Operation == types.ArrayUpdateOperationRemove {
			continue
		}
		coming[one.Info.GetClusterGroupInfo().Name] = true
		group, ok := one.Info.(*types.ClusterVmGroup)
		if ok && len(group.Vm) == 0 && one.Operation == types.ArrayUpdateOperationAdd {
			return "groupSpec.info.vm"
		}
	}
	for _, one := range spec.RulesSpec {
		if one.Operation == types.ArrayUpdateOperationRemove {
			continue
		}
		switch rule := one.Info.(type) {
		case *types.ClusterAntiAffinityRuleSpec:
			if len(rule.Vm) < 2 {
				return "rulesSpec.info.vm"
			}
		case *types.ClusterAffinityRuleSpec:
			if len(rule.Vm) < 2 {
				return "rulesSpec.info.vm"
			}
		case *types.ClusterVmHostRuleInfo:
			if !coming[rule.VmGroupName] && !hasGroup(config, rule.VmGroupName) {
				return "rulesSpec.info.vmGroupName"
			}
		}
	}
	return ""
}

func hasGroup(config *types.ClusterConfigInfoEx, name string) bool {
	for _, one := range config.Group {
		if one.GetClusterGroupInfo().Name == name {
			return true
		}
	}
	return false
}

func vmGroup(config *types.ClusterConfigInfoEx, name string) []ref {
	for _, one := range config.Group {
		if group, ok := one.(*types.ClusterVmGroup); ok && group.Name == name {
			return group.Vm
		}
	}
	return nil
}

func hostGroup(config *types.ClusterConfigInfoEx, name string) []ref {
	for _, one := range config.Group {
		if group, ok := one.(*types.ClusterHostGroup); ok && group.Name == name {
			return group.Host
		}
	}
	return nil
}
