package main

// A small DRS: a VM that is powered on goes to the emptiest host of its cluster that the rules allow.

import (
	"fmt"
	"net/http"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

type ref = types.ManagedObjectReference

func (s *strict) place(w http.ResponseWriter, target ref) bool {
	s.placing.Lock()
	defer s.placing.Unlock()
	vm, ok := registry().Get(target).(*simulator.VirtualMachine)
	if !ok || vm.ResourcePool == nil || vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
		return false
	}
	cluster := clusterOf(vm)
	if cluster == nil {
		return false
	}
	host, found := choose(cluster, vm)
	if !found {
		fault := &types.NoCompatibleHost{Host: cluster.Host}
		for range cluster.Host {
			fault.Error = append(fault.Error, types.LocalizedMethodFault{
				Fault: &types.RuleViolation{}, LocalizedMessage: "a mandatory rule forbids this host",
			})
		}
		task := simulator.CreateTask(vm, "powerOn", func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
			return nil, fault
		})
		writeAnswer(w, fmt.Sprintf("<PowerOnVM_TaskResponse xmlns=\"urn:vim25\"><returnval type=\"Task\">%s</returnval>"+
			"</PowerOnVM_TaskResponse>", finished(task)))
		return true
	}
	update(vm, []types.PropertyChange{
		{Name: "runtime.host", Val: &host}, {Name: "summary.runtime.host", Val: &host},
	})
	return false
}

func clusterOf(vm *simulator.VirtualMachine) *simulator.ClusterComputeResource {
	pool, ok := registry().Get(*vm.ResourcePool).(*simulator.ResourcePool)
	if !ok {
		return nil
	}
	cluster, _ := registry().Get(pool.Owner).(*simulator.ClusterComputeResource)
	return cluster
}

func choose(cluster *simulator.ClusterComputeResource, vm *simulator.VirtualMachine) (ref, bool) {
	load := map[ref]int{}
	on := map[ref]ref{} // running VM → its host
	for self, one := range vms() {
		if one.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn && one.Runtime.Host != nil {
			load[*one.Runtime.Host] += 2
			on[self] = *one.Runtime.Host
		}
	}
	config := rulesInForce(cluster)
	best, found := ref{}, false
	for _, host := range cluster.Host {
		allowed, penalty := judge(config, vm.Self, host, on)
		if allowed && (!found || load[host]+penalty < load[best]) {
			best, found = host, true
			load[best] += penalty
		}
	}
	return best, found
}

// rulesInForce is nothing where DRS is off.
func rulesInForce(cluster *simulator.ClusterComputeResource) *types.ClusterConfigInfoEx {
	config := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
	if on := config.DrsConfig.Enabled; on != nil && !*on {
		return &types.ClusterConfigInfoEx{}
	}
	return config
}

// judge says whether every mandatory rule allows this host, and how bad the others find it.
func judge(config *types.ClusterConfigInfoEx, vm, host ref, on map[ref]ref) (bool, int) {
	penalty := 0
	for _, one := range config.Rule {
		info := one.GetClusterRuleInfo()
		if info.Enabled != nil && !*info.Enabled || keeps(config, one, vm, host, on) {
			continue
		}
		if info.Mandatory != nil && *info.Mandatory {
			return false, 0
		}
		penalty += 1000
	}
	return true, penalty
}

func keeps(config *types.ClusterConfigInfoEx, rule types.BaseClusterRuleInfo, vm, host ref, on map[ref]ref) bool {
	switch one := rule.(type) {
	case *types.ClusterAntiAffinityRuleSpec:
		return !has(one.Vm, vm) || !shared(one.Vm, vm, host, on)
	case *types.ClusterAffinityRuleSpec:
		return !has(one.Vm, vm) || !elsewhere(one.Vm, vm, host, on)
	case *types.ClusterVmHostRuleInfo:
		if !has(vmGroup(config, one.VmGroupName), vm) {
			return true
		}
		return (one.AffineHostGroupName == "" || has(hostGroup(config, one.AffineHostGroupName), host)) &&
			(one.AntiAffineHostGroupName == "" || !has(hostGroup(config, one.AntiAffineHostGroupName), host))
	}
	return true
}

func has(list []ref, wanted ref) bool {
	for _, one := range list {
		if one == wanted {
			return true
		}
	}
	return false
}

func shared(members []ref, vm, host ref, on map[ref]ref) bool {
	for _, one := range members {
		if at, running := on[one]; running && one != vm && at == host {
			return true
		}
	}
	return false
}

func elsewhere(members []ref, vm, host ref, on map[ref]ref) bool {
	for _, one := range members {
		if at, running := on[one]; running && one != vm && at != host {
			return true
		}
	}
	return false
}
