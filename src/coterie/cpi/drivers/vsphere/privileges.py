"""The privileges that this driver uses, and on what. Pure; the guide's table is made of it.

`Host.Inventory.EditCluster` is asked for only where groups or rules are used.
"""

from __future__ import annotations

from typing import Literal

Where = Literal["root", "datacenter", "cluster"]

_VM = "VirtualMachine"
# The custom attributes of VMs are defined once, for the whole vCenter.
ROOT = ("Global.ManageCustomFields",)
# On the datacenter, propagated to its folders, clusters, datastores and networks.
DATACENTER = (
    "Datastore.AllocateSpace",
    "Datastore.Browse",
    "Datastore.FileManagement",
    "Folder.Create",
    "Folder.Delete",
    "Folder.Rename",
    "Global.SetCustomField",
    "Network.Assign",
    "Resource.AssignVMToPool",
    "VApp.Import",
    f"{_VM}.Config.AddExistingDisk",
    f"{_VM}.Config.AddNewDisk",
    f"{_VM}.Config.AddRemoveDevice",
    f"{_VM}.Config.AdvancedConfig",
    f"{_VM}.Config.CPUCount",
    f"{_VM}.Config.DiskExtend",
    f"{_VM}.Config.EditDevice",
    f"{_VM}.Config.Memory",
    f"{_VM}.Config.RemoveDisk",
    f"{_VM}.Config.Settings",
    f"{_VM}.Interact.DeviceConnection",
    f"{_VM}.Interact.PowerOff",
    f"{_VM}.Interact.PowerOn",
    f"{_VM}.Interact.Reset",
    f"{_VM}.Interact.SetCDMedia",
    f"{_VM}.Inventory.Create",
    f"{_VM}.Inventory.CreateFromExisting",
    f"{_VM}.Inventory.Delete",
    f"{_VM}.Provisioning.Clone",
    f"{_VM}.Provisioning.CloneTemplate",
    f"{_VM}.Provisioning.DeployTemplate",
    f"{_VM}.Provisioning.MarkAsTemplate",
    f"{_VM}.State.CreateSnapshot",
)
# On each cluster whose groups and rules are written.
GROUPS = ("Host.Inventory.EditCluster",)


def needed(groups: bool) -> dict[Where, tuple[str, ...]]:
    """`groups`: whether server groups are used."""
    found: dict[Where, tuple[str, ...]] = {"root": ROOT, "datacenter": DATACENTER}
    return {**found, "cluster": GROUPS} if groups else found
