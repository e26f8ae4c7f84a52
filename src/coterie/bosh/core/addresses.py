"""The addresses of machines as the ledger has them: which machine of the same Director holds one that a call wants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coterie.bosh.core.call_context import CallContext
from coterie.cpi.contract import CpiError, Networks, OutcomeUnknown, VMCreationFailed
from coterie.ledger.rows import object_life as objects
from coterie.ledger.rows.object_life import ObjectRow

Addresses = frozenset[tuple[str, str]]
"""Each with the properties of its network as text, since two networks may have the same addresses."""


def of_request(networks: Networks) -> Addresses:
    """Those that a caller asks for; a dynamic network may still carry the one of an earlier machine."""
    return _read({label: spec for label, spec in networks.items() if spec.get("type") != "dynamic"})


def of_row(row: ObjectRow) -> Addresses:
    """Those that a machine got, or those that were asked for, as long as it has no answer."""
    notes = row.properties or {}
    if "answer" in notes:
        return _read(notes["answer"][1])
    return frozenset((str(ip), str(network)) for ip, network in notes.get("addresses") or ())


def name_holder(context: CallContext, agent_id: str, networks: Networks, error: CpiError) -> CpiError:
    """The error; where a machine that this Director received has the address, with the way out of it."""
    if not isinstance(error, VMCreationFailed) or isinstance(error, OutcomeUnknown):
        return error
    wanted = of_request(networks)
    with context.ledger.read() as tx:
        rows = objects.of_caller(tx, context.cloud, context.director) if wanted else []
    others = (row for row in rows if row.kind == "vm" and row.may_exist and row.ref != agent_id)
    holder = next((row for row in others if wanted & of_row(row)), None)
    if holder is None:
        return error
    remedy = (
        f"the ledger says that machine {holder.cid or holder.intent} of agent {holder.ref} has the address; if the "
        f"Director does not know that machine, remove it with `coterie-cpi cleanup --director-uuid {context.director} "
        f"--cloud {context.cloud} --kind vm --known FILE --grace 0 --apply`, where FILE holds those that it knows; "
        f"else {error.remedy or 'use another address'}"
    )
    return VMCreationFailed(error.what, why=error.why, remedy=remedy, retryable=error.retryable, details=error.details)


def _read(networks: Mapping[str, Any]) -> Addresses:
    return frozenset(
        (str(spec["ip"]), json.dumps(spec.get("cloud_properties") or {}, sort_keys=True))
        for spec in networks.values()
        if spec.get("ip")
    )
