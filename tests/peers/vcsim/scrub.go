package main

// The simulator leaves a destroyed VM's reference inside DRS groups and rules; a real vCenter is said to drop it.
// With -scrub the reference goes when the VM leaves the inventory.

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

type scrubber struct{}

func (scrubber) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Scrubber", Value: "scrubber"}
}

// scrub is called when an object has left the inventory.
func scrub(gone types.ManagedObjectReference) {
	if gone.Type != "VirtualMachine" {
		return
	}
	for _, entity := range registry().All("ClusterComputeResource") {
		cluster := entity.(*simulator.ClusterComputeResource)
		withLock(cluster, func() {
			config := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
			for _, group := range config.Group {
				if vms, ok := group.(*types.ClusterVmGroup); ok {
					vms.Vm = without(vms.Vm, gone)
				}
			}
			for _, rule := range config.Rule {
				switch one := rule.(type) {
				case *types.ClusterAntiAffinityRuleSpec:
					one.Vm = without(one.Vm, gone)
				case *types.ClusterAffinityRuleSpec:
					one.Vm = without(one.Vm, gone)
				}
			}
		})
	}
}

func without(in []types.ManagedObjectReference, gone types.ManagedObjectReference) []types.ManagedObjectReference {
	out := make([]types.ManagedObjectReference, 0, len(in))
	for _, one := range in {
		if one != gone {
			out = append(out, one)
		}
	}
	return out
}
