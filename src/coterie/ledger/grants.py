"""What the database role of a conductor may do: run steps, answer questions, keep its place in the fleet; and of these,
only for the conductor groups that it is given. It reads no token, changes no deployment and no cloud, publishes no key.

Rights are by column here. Which rows a role sees and changes is decided by the policies of the migrations.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.errors import UsageError
from coterie.ledger.rows.keys import EVERY
from coterie.ring.members import group_name

_READ = "SELECT"
_LONGEST = 63  # PostgreSQL cuts longer names without an error

# A row lock and a change with a condition need SELECT too.
_RIGHTS = {
    "directors": _READ,
    "alembic_version": _READ,
    "schema_floor": _READ,
    "conductor_roles": _READ,
    "clouds": _READ,
    "cloud_pins": "SELECT, INSERT, UPDATE",
    "cloud_alarms": "SELECT, INSERT, UPDATE, DELETE",
    "conductor_keys": _READ,
    "machine_secrets": _READ,
    "director_keys": _READ,
    "stemcells": _READ,
    "stemcell_chunks": _READ,
    "cleanups": _READ,
    "deployments": "SELECT (name)",
    "server_group_users": _READ,
    "server_groups": "SELECT, UPDATE (cid, metadata, state, drift, ended_at)",
    "nodes": "SELECT, DELETE, UPDATE (az, state, spec, vm_intent, vm_cid, server_group, host, addresses, problem, "
    "updated_at)",
    "addresses": "SELECT, DELETE",
    "objects": "SELECT, INSERT, UPDATE (state, cid, node, size_mb, properties, tombstone, doubt_since, ended_at, "
    "late_at)",
    "parts": "SELECT, INSERT, DELETE, UPDATE (cid)",
    "facts": "SELECT, UPDATE (properties, at, data, error, holder, held_until)",
    "tasks": "SELECT (id, kind, deployment, state, events), UPDATE (state, events, ended_at, report)",
    "stages": "SELECT, UPDATE (state, admitted, ended, failed)",
    "steps": "SELECT, UPDATE (label, state, owner, epoch, attempt, not_before, deadline, data, error, started_at, "
    "ended_at)",
    "events": "SELECT (id), INSERT",
    "conductors": "SELECT, INSERT, DELETE, UPDATE (heartbeat, draining)",
    "domains": "SELECT, INSERT, UPDATE (holder, epoch, expires, cloud)",
    "changes": "SELECT, INSERT, DELETE, UPDATE (state, outcome)",
    "surveys": "SELECT, UPDATE (state, reason, calls, pages, counts, at)",
    "findings": "SELECT, INSERT, UPDATE (outcome, told, ended_at)",
    "sightings": "SELECT, INSERT, DELETE",
    "suspects": "SELECT, INSERT, DELETE, UPDATE (created_at, since, doomed, cleanup)",
}
_SEQUENCES = ("events_id_seq", "changes_id_seq", "findings_id_seq", "parts_id_seq")
# What policies call, and what crosses sites: a task may have steps of several.
_FUNCTIONS = (
    "coterie_groups()",
    "coterie_serves_all()",
    "coterie_clouds()",
    "coterie_is_lent(bigint, integer)",
    "coterie_has_deployment(text)",
    "coterie_may_hold(text, text)",
    "coterie_takes_part(bigint)",
    "coterie_require_part(bigint)",
    "coterie_admit_steps(bigint, integer, bigint)",
    "coterie_skip_steps(bigint, integer)",
    "coterie_count_steps(bigint)",
    "coterie_failed_steps(bigint)",
    "coterie_stemcell_users(text, text)",
    "coterie_forget_deployment(bigint)",
)


def statements(role: str, groups: Iterable[str]) -> list[str]:
    """SQL for the owner of the tables; to be repeated after an upgrade, which may need more rights, or fewer.

    `groups`: the conductor groups that the role works for; "*": all, for conductors that serve every group.
    """
    name, text = _quote(role), _literal(role)
    wanted = sorted({group if group == EVERY else group_name(group) for group in groups})
    if not wanted:
        raise UsageError("the role works for no conductor group", remedy="name one or more: --group NAME")
    rows = ", ".join(f"({text}, {_literal(group)})" for group in wanted)
    return [
        "BEGIN;",
        _refusal(wanted),
        # A cluster that came from PostgreSQL 14 lets every role create functions that ours could call by mistake.
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC;",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {name};",
        f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {name};",
        f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM {name};",
        f"GRANT USAGE ON SCHEMA public TO {name};",
        *[f"GRANT {rights} ON {table} TO {name};" for table, rights in _RIGHTS.items()],
        f"GRANT USAGE ON SEQUENCE {', '.join(_SEQUENCES)} TO {name};",
        f"GRANT EXECUTE ON FUNCTION {', '.join(_FUNCTIONS)} TO {name};",
        f"DELETE FROM conductor_roles WHERE role = {text};",
        f"INSERT INTO conductor_roles (role, conductor_group) VALUES {rows};",
        "COMMIT;",
    ]


def _refusal(groups: list[str]) -> str:
    """Conductors of release 0.1.0 cannot commit a step with these rights."""
    named = ", ".join(_literal(group) for group in groups)
    theirs = "true" if EVERY in groups else f"c.every_group OR c.conductor_group IN ({named})"
    return (
        "DO $$ BEGIN IF EXISTS (SELECT 1 FROM conductors c WHERE NOT c.opens_secrets"
        f" AND c.heartbeat >= extract(epoch from clock_timestamp()) - c.ttl_s AND ({theirs})) THEN RAISE EXCEPTION"
        " 'a conductor of an earlier release works for this group: upgrade it first, or drain it'; END IF; END $$;"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quote(role: str) -> str:
    if not role or len(role.encode()) > _LONGEST or not role.isprintable():
        raise UsageError(f"{role!r} cannot be the name of a role", remedy=f"use 1 to {_LONGEST} printable characters")
    return '"' + role.replace('"', '""') + '"'
