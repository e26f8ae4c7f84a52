"""What the database role of a conductor may do: run steps, answer questions, keep its place in the fleet. Nothing else:
it reads no token, changes no deployment and no cloud, and publishes no key."""

from __future__ import annotations

from coterie.errors import UsageError

_READ = "SELECT"
_LONGEST = 63  # PostgreSQL cuts longer names without an error

# A row lock and a change with a condition need SELECT too; DELETE on deployments forgets one whose nodes are gone.
_RIGHTS = {
    "directors": _READ,
    "alembic_version": _READ,
    "schema_floor": _READ,
    "clouds": _READ,
    "conductor_keys": _READ,
    "stemcells": _READ,
    "cleanups": _READ,
    "deployments": "SELECT (name, serial, config_id, resurrection, created_at, updated_at), DELETE",
    "instance_groups": "SELECT, DELETE",
    "server_group_users": "SELECT, DELETE",
    "server_groups": "SELECT, UPDATE",
    "nodes": "SELECT, UPDATE, DELETE",
    "addresses": "SELECT, DELETE",
    "objects": "SELECT, INSERT, UPDATE",
    "facts": "SELECT, UPDATE",
    "tasks": "SELECT, UPDATE",
    "stages": "SELECT, UPDATE",
    "steps": "SELECT, UPDATE",
    "events": "SELECT (id), INSERT",
    "conductors": "SELECT, INSERT, UPDATE, DELETE",
    "domains": "SELECT, INSERT, UPDATE",
    "changes": "SELECT, INSERT, UPDATE, DELETE",
    "surveys": "SELECT, UPDATE",
    "findings": "SELECT, INSERT, UPDATE",
    "sightings": "SELECT, INSERT, DELETE",
    "suspects": "SELECT, INSERT, UPDATE, DELETE",
}
_SEQUENCES = ("events_id_seq", "changes_id_seq", "findings_id_seq")


def statements(role: str) -> list[str]:
    """SQL for the owner of the tables; to be repeated after an upgrade, which may need more rights, or fewer."""
    name = _quote(role)
    return [
        "BEGIN;",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {name};",
        f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {name};",
        f"GRANT USAGE ON SCHEMA public TO {name};",
        *[f"GRANT {rights} ON {table} TO {name};" for table, rights in _RIGHTS.items()],
        f"GRANT USAGE ON SEQUENCE {', '.join(_SEQUENCES)} TO {name};",
        "COMMIT;",
    ]


def _quote(role: str) -> str:
    if not role or len(role.encode()) > _LONGEST or not role.isprintable():
        raise UsageError(f"{role!r} cannot be the name of a role", remedy=f"use 1 to {_LONGEST} printable characters")
    return '"' + role.replace('"', '""') + '"'
