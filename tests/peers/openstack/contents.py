"""All that a project holds, read from the services' own databases: past every API, and in one look."""

from __future__ import annotations

import subprocess

from tests.peers.openstack.layout import Layout

_SECURITY_GROUPS = "neutron.securitygroups"
# kind "memo": what the driver records on the default security group; no service counts it as an object
# kind → table, column of the id, and what counts; P and U stand for the project and its user
_TABLES = (
    ("vm", "nova.instances", "uuid", "project_id = 'P' and deleted = 0"),
    ("vm", "nova_cell0.instances", "uuid", "project_id = 'P' and deleted = 0"),
    ("vm", "nova_api.build_requests", "instance_uuid", "project_id = 'P'"),
    ("server_group", "nova_api.instance_groups", "uuid", "project_id = 'P'"),
    ("keypair", "nova_api.key_pairs", "name", "user_id = 'U'"),
    ("port", "neutron.ports", "id", "project_id = 'P' and device_owner not like 'network:%'"),
    ("ip", "neutron.floatingips", "id", "project_id = 'P'"),
    ("security_group", _SECURITY_GROUPS, "id", "project_id = 'P' and name <> 'default'"),
    (
        "memo",
        f"neutron.tags join {_SECURITY_GROUPS} using (standard_attr_id)",
        "tag",
        "project_id = 'P' and name = 'default'",
    ),
    ("network", "neutron.networks", "id", "project_id = 'P' and name <> 'net'"),
    ("disk", "cinder.volumes", "id", "project_id = 'P' and deleted = 0"),
    ("snapshot", "cinder.snapshots", "id", "project_id = 'P' and deleted = 0"),
    ("image", "glance.images", "id", "owner = 'P' and deleted = 0"),
)
_LOOK = " union all ".join(f"select '{kind}', {key} from {table} where {which}" for kind, table, key, which in _TABLES)


def contents(layout: Layout, project: str, user: str) -> set[tuple[str, str]]:
    """(kind, id) of everything but the furniture that the project was made with."""
    query = _LOOK.replace("'P'", f"'{project}'").replace("'U'", f"'{user}'")
    words = ["mariadb", "--no-defaults", f"--socket={layout.socket}", "-uroot", "-N", "-B", "-e", query]
    found = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [line.split("\t") for line in found.splitlines()]
    return {(kind, name) for kind, name in rows}
