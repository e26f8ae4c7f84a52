"""Stores the secrets of machines sealed: those of an accepted plan, and those that an older release left in plain.

The Director cannot open them. It seals to the public key of each conductor group that may make the machines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.errors import Refused
from coterie.ledger.rows import clouds, deployments, identity, keys, machine_secrets, nodes, plain_secrets
from coterie.ledger.rows.machine_secrets import SecretRow
from coterie.ledger.store import Ledger, Tx, pinned_release
from coterie.ledger.work import conductors
from coterie.manifest import InstanceGroupSpec
from coterie.plan.spec import NodeSpec, seal_spec
from coterie.redact import hide_yaml
from coterie.seal.key import PublicKey
from coterie.seal.machine import Holder, MachineSecrets, find_secrets, seal_secrets, secret_name

log = logging.getLogger(__name__)
_BATCH = 200  # rows in one transaction: other threads write too


def seal_groups(tx: Tx, deployment: str, wanted: Sequence[InstanceGroupSpec]) -> None:
    """Store what these instance groups need sealed to every conductor group that their nodes may have."""
    if not machine_secrets.are_sealed(tx):
        return
    director = identity.director(tx).uuid
    for spec in wanted:
        secrets = find_secrets(spec.env, spec.user_data, spec.tags)
        if secrets:
            name = secret_name(Holder(director, deployment, spec.name), secrets)
            groups = _conductor_groups(tx, {az.cloud for az in spec.azs})
            _store(tx, name, deployment, secrets, groups)


def seal_stored(ledger: Ledger) -> bool:
    """Begin to seal once every service knows how, then seal what is stored in plain; whether nothing is left.

    Steps that have not ended are left for the next time, and so are nodes whose conductor group has no key yet.
    """
    with ledger.write() as tx:
        if not machine_secrets.are_sealed(tx):
            if pinned_release(tx) is not None or not conductors.all_open_secrets(tx):
                return False
            machine_secrets.begin_sealing(tx)
    _hide_manifests(ledger)
    for reason in sorted(_seal_nodes(ledger) | _seal_steps(ledger)):
        log.warning("secrets of machines are still stored in plain: %s", reason)
    with ledger.read() as tx:
        return not plain_secrets.are_left(tx)


def _conductor_groups(tx: Tx, of_clouds: Iterable[str]) -> set[str]:
    """All that nodes in these clouds may have, now or after a move."""
    configured = clouds.all_clouds(tx)
    return {group for name in of_clouds if name in configured for group in configured[name].groups}


def _store(tx: Tx, name: str, deployment: str, secrets: MachineSecrets, groups: Iterable[str]) -> None:
    present = machine_secrets.keys_of(tx, [name])
    for group in sorted(groups):
        found = keys.of_group(tx, group)
        if not found:
            raise Refused(
                f"env and user_data of deployment {deployment} cannot be sealed",
                why=f"conductor group {group!r} has no key yet",
                remedy="start a conductor of that group, which makes one (coterie conductor --group NAME), or publish "
                "one: coterie conductors keys publish",
            )
        key = PublicKey.read(found[0].public)
        if present.get((name, group)) != key.id:
            sealed = seal_secrets(key, name, deployment, secrets)
            machine_secrets.save(tx, SecretRow(name, group, deployment, key.id, sealed))
    machine_secrets.record_use(tx, [name])


# -- what an older release stored --


def _hide_manifests(ledger: Ledger) -> None:
    with ledger.read() as tx:
        names = deployments.names(tx)
    for name in names:
        with ledger.write() as tx:
            row = deployments.get(tx, name)
            if row is not None and (hidden := hide_yaml(row.manifest)) != row.manifest:
                deployments.hide_manifest(tx, name, hidden)


def _seal_nodes(ledger: Ledger) -> set[str]:
    """The reasons why some could not be sealed."""
    reasons: set[str] = set()
    with ledger.read() as tx:
        found = plain_secrets.nodes_in_plain(tx)
    for uuid in found:
        with ledger.write() as tx:
            node = nodes.get(tx, uuid)
            if node is None or node.spec is None:
                continue
            try:
                sealed = _seal_wire(tx, node.deployment, node.instance_group, node.spec)
            except Refused as error:
                reasons.add(error.why)
            else:
                plain_secrets.replace_spec(tx, uuid, node.spec, sealed)
    return reasons


def _seal_steps(ledger: Ledger) -> set[str]:
    """The same for steps that have ended."""
    reasons: set[str] = set()
    after, size = 0, _BATCH
    while size == _BATCH:
        with ledger.write() as tx:
            rows = plain_secrets.steps_in_plain(tx, after, _BATCH)
            for row in rows:
                try:
                    sealed = _seal_wire(tx, row.data["deployment"], row.data["instance_group"], row.data["wish"])
                except Refused as error:
                    reasons.add(error.why)
                else:
                    plain_secrets.replace_data(tx, row.id, {**row.data, "wish": sealed})
        after, size = rows[-1].id if rows else after, len(rows)
    return reasons


def _seal_wire(tx: Tx, deployment: str, instance_group: str, wire: Mapping[str, Any]) -> dict[str, Any]:
    """A stored spec with its secrets by name. Those of a deployment that is gone are not stored at all."""
    plain = NodeSpec.of_wire(wire)
    sealed = seal_spec(plain, Holder(identity.director(tx).uuid, deployment, instance_group))
    if sealed.secret is not None and deployments.get(tx, deployment) is not None:
        groups = _conductor_groups(tx, [plain.cloud])
        _store(tx, sealed.secret, deployment, plain.secrets, groups)
    return sealed.wire()
