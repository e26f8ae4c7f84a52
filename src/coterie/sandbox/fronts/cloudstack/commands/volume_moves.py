"""Moving volumes between storage pools: one that is on local storage goes to that of another host."""

from __future__ import annotations

from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import job
from coterie.sandbox.fronts.cloudstack.commands.volumes import fetch, volume_row
from coterie.sandbox.fronts.cloudstack.listing import Row
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.hosts import list_hosts


@job("migrateVolume")
def migrate(call: Call, wanted: str) -> Row:
    found, doc = fetch(call.tx, wanted), shelf.doc_of(call.tx.db, wanted)
    if not doc.get("used"):
        raise refuse("Volume must be in ready state")
    if found.vm:
        raise refuse("this simulation migrates detached volumes only")
    host = places.pool_host(call.tx, call.params["storageid"])
    if (host is None) == (doc.get("storage") == "local"):
        raise refuse("local and shared storage: the volume needs a disk offering that fits the destination pool")
    if host and _zone_of(call, host) != found.zone:
        raise refuse("cannot migrate a volume to a storage pool of another zone")
    shelf.note(call.tx, wanted, host=host)
    return volume_row(call.tx, fetch(call.tx, wanted))


def _zone_of(call: Call, host: str) -> str | None:
    return next((one.zone for one in work_of(list_hosts)(call.tx) if one.name == host), None)
