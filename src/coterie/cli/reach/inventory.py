"""`coterie inventory`: the nodes as Ansible's inventory scripts print them."""

from __future__ import annotations

import re
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.reach.login import Login, Logins
from coterie.cli.show.table import as_json

_NOT_IN_GROUP = re.compile(r"\W", re.ASCII)
_FACTS = ("uuid", "deployment", "instance_group", "index", "az", "cloud", "state", "host", "server_group", "vm_cid")


@verb("inventory")
@click.option("--list", "everything", is_flag=True, help="All nodes; the default.")
@click.option("--host", metavar="NODE", help="The variables of one node.")
@click.option("--deployment", metavar="NAME")
def inventory(session: Session, everything: bool, host: str | None, deployment: str | None) -> None:
    """Print an inventory for Ansible, with groups by deployment, instance group, az, cloud and state.

    \b
    An inventory script for `ansible -i nodes.sh` is:
      #!/bin/sh
      exec coterie inventory "$@"
    """
    logins = Logins(session.client)
    if host is not None:
        found = logins.find_all([session.client.nodes.get(host)])
        session.data(as_json(_variables(found[0]) if found else {}))
        return
    listed = session.client.nodes.list(deployment=deployment)
    session.data(as_json(_inventory(logins.find_all(listed))))


def _inventory(logins: list[Login]) -> dict[str, Any]:
    groups: dict[str, list[str]] = {}
    for login in logins:
        for group in _groups(login):
            groups.setdefault(group, []).append(login.name)
    return {
        "_meta": {"hostvars": {login.name: _variables(login) for login in logins}},
        "all": {"children": ["ungrouped", *sorted(groups)]},
        **{name: {"hosts": hosts} for name, hosts in sorted(groups.items())},
    }


def _groups(login: Login) -> list[str]:
    node = login.node
    named = {
        "deployment": node["deployment"],
        "group": f"{node['deployment']}_{node['instance_group']}" if node["deployment"] else None,
        "az": node["az"],
        "cloud": node["cloud"],
        "state": node["state"],
    }
    return [_NOT_IN_GROUP.sub("_", f"{kind}_{name}") for kind, name in named.items() if name]


def _variables(login: Login) -> dict[str, Any]:
    arguments = [f"-o HostKeyAlias={login.key_alias}", *([f"-J {login.jump_host}"] if login.jump_host else [])]
    given = {
        "ansible_host": login.address,
        "ansible_port": login.port,
        "ansible_user": login.user,
        "ansible_ssh_private_key_file": login.identity_file,
        "ansible_ssh_common_args": " ".join(arguments),
        **{f"coterie_{name}": login.node[name] for name in _FACTS},
        "coterie_addresses": login.node["addresses"],
    }
    return {name: value for name, value in given.items() if value is not None and not _is_template(value)}


def _is_template(value: Any) -> bool:
    """Ansible evaluates these, and some of the values are words of a cloud: such a one is left out."""
    return any(mark in str(value) for mark in ("{{", "{%", "{#"))
