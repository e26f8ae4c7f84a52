"""Hosts and storage pools, for administrators. Every zone has one shared pool, every host its own local one."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import places
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows
from coterie.sandbox.hosts import HostView, list_hosts

_MIB = 2**20


@answers("listHosts")
def list_all_hosts(call: Call) -> Iterator[Row]:
    rows = map(_host, work_of(list_hosts)(call.tx))
    return filter_rows(call, rows, "id", "name", "zoneid", "podid", "type", "state")


@answers("listStoragePools")
def list_storage_pools(call: Call) -> Iterator[Row]:
    shared = [
        {
            "id": places.id_of("pool", zone),
            "name": f"{zone}-shared",
            "scope": "ZONE",
            "type": "NetworkFilesystem",
            "state": "Up",
            **places.zone_words(zone),
        }
        for zone in places.zones(call.tx)
    ]
    local = [
        {
            "id": places.id_of("pool", host.name),
            "name": f"{host.name}-local",
            "scope": "HOST",
            "type": "Filesystem",
            "state": "Up",
            # the vendor names a local pool's host by its address only
            "ipaddress": _address(host.name),
            **places.zone_words(host.zone),
        }
        for host in work_of(list_hosts)(call.tx)
    ]
    return filter_rows(call, [*shared, *local], "id", "name", "zoneid", "scope", "ipaddress")


def _address(host: str) -> str:
    number = int(places.id_of("host", host).replace("-", "")[:6], 16)
    return f"127.250.{number // 256 % 256}.{number % 256}"


def _host(host: HostView) -> Row:
    return {
        "id": places.id_of("host", host.name),
        "name": host.name,
        "type": "Routing",
        "state": "Up" if host.up else "Down",
        "resourcestate": "Enabled",
        "hypervisor": places.HYPERVISOR,
        "podid": places.id_of("pod", host.rack),
        "podname": host.rack,
        **places.zone_words(host.zone),
        "ipaddress": _address(host.name),
        "cpunumber": host.cpu,
        "cpuspeed": 2000,
        "cpuallocatedvalue": (host.cpu - host.free_cpu) * 2000,
        "memorytotal": host.ram_mb * _MIB,
        "memoryallocated": (host.ram_mb - host.free_ram_mb) * _MIB,
        "memoryallocatedbytes": (host.ram_mb - host.free_ram_mb) * _MIB,
        "islocalstorageactive": True,
    }
