"""`coterie sandbox show` and `hosts`: what the datacenter holds, and where there is room."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coterie.cli.frame.session import Session
from coterie.cli.sandbox.noun import at_state, open_state, sandbox
from coterie.cli.show.table import as_json, table

_HOST = ("ZONE", "RACK", "HOST", "STATE", "VMS", "FREE CPU", "FREE RAM MB", "HOLDS")
_GROUP = ("ACCOUNT", "GROUP", "POLICY", "ZONE", "MEMBERS", "HOSTS")
_ACCOUNT = ("ACCOUNT", "GROUPS ARE", "DISKS", "SNAPSHOTS", "IMAGES", "NETWORKS", "SECURITY GROUPS")


@sandbox.verb("show")
@at_state
def show(session: Session) -> None:
    """Zones, racks and hosts with their VMs; groups with their members; accounts."""
    show_all(session)


@sandbox.verb("hosts")
@at_state
def hosts(session: Session) -> None:
    """Hosts with what is free on them."""
    zones = _picture(session)["zones"]
    if session.json:
        session.data(as_json(zones))
        return
    session.data(_hosts(session, zones))


def show_all(session: Session) -> None:
    picture = _picture(session)
    if session.json:
        session.data(as_json(picture))
        return
    session.data(_hosts(session, picture["zones"]))
    if picture["groups"]:
        session.data("\n" + table(_GROUP, [_group(group) for group in picture["groups"]], session.paint))
    if picture["accounts"]:
        session.data("\n" + table(_ACCOUNT, [_account(account) for account in picture["accounts"]], session.paint))
    for vm in picture["unplaced"]:
        session.say(f"VM {vm['id']} ({vm['name']}) has no host yet")


def _picture(session: Session) -> dict[str, Any]:
    from coterie.sandbox.view import picture

    return picture(open_state(session, create=False).store)


def _hosts(session: Session, zones: list[dict[str, Any]]) -> str:
    rows = [
        _host(zone["name"], rack["name"], host) for zone in zones for rack in zone["racks"] for host in rack["hosts"]
    ]
    return table(_HOST, rows, session.paint, state=3)


def _host(zone: str, rack: str, host: dict[str, Any]) -> list[Any]:
    vms = [vm["name"] if vm["state"] == "running" else f"{vm['name']} ({vm['state']})" for vm in host["vms"]]
    state = "up" if host["up"] else "down"
    return [zone, rack, host["name"], state, len(vms), host["free_cpu"], host["free_ram_mb"], vms]


def _group(group: dict[str, Any]) -> list[Any]:
    held = Counter(member["host"] or "no host yet" for member in group["members"])
    hosts = [host if count == 1 else f"{host}×{count}" for host, count in sorted(held.items())]
    return [group["account"], group["name"], group["policy"], group["zone"], group["size"], hosts]


def _account(account: dict[str, Any]) -> list[Any]:
    kinds = ("disk", "snapshot", "image", "network", "security_group")
    return [account["name"], account["groups"], *(account["objects"][kind] for kind in kinds)]
