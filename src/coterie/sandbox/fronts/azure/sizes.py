"""The sizes of VMs that the front has."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.sandbox.fronts.azure.call import LOCATION
from coterie.sandbox.fronts.azure.shelf import Body

# name → cpu, MiB, data disks, disk controllers
SIZES = {
    "Standard_B1s": (1, 1024, 2, "SCSI"),
    "Standard_B2s": (2, 4096, 4, "SCSI"),
    "Standard_D2s_v5": (2, 8192, 4, "SCSI"),
    "Standard_D2s_v6": (2, 8192, 4, "NVMe"),
    "Standard_D4s_v5": (4, 16_384, 8, "SCSI"),
    "Standard_D8s_v5": (8, 32_768, 16, "SCSI"),
    "Standard_D16s_v5": (16, 65_536, 32, "SCSI"),
    "Standard_M416ms_v2": (416, 11_673_600, 64, "SCSI"),
}


def show_size(name: str, zones: Iterable[str]) -> Body:
    cpu, ram, data_disks, controllers = SIZES[name]
    capabilities = {
        "vCPUs": cpu,
        "MemoryGB": ram / 1024,
        "MaxDataDiskCount": data_disks,
        "DiskControllerTypes": controllers,
        "PremiumIO": True,
    }
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "locations": [LOCATION],
        "locationInfo": [{"location": LOCATION, "zones": list(zones), "zoneDetails": []}],
        "capabilities": [{"name": key, "value": str(value)} for key, value in capabilities.items()],
        "restrictions": [],
    }
