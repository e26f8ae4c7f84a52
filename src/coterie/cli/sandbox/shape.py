"""`coterie sandbox host`, `vm` and `reset`: changes of the datacenter that no tenant requested."""

from __future__ import annotations

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.sandbox.noun import at_state, open_state, sandbox
from coterie.cli.sandbox.show import show_all


@noun("host")
def host(session: Session) -> None:
    """Hosts come, go, fail and recover."""
    show_all(session)


@host.verb("down")
@at_state
@click.argument("name")
def down(session: Session, name: str) -> None:
    """Host NAME fails; its VMs go to state error."""
    from coterie.sandbox.reshape import set_host

    hit = set_host(open_state(session), name, up=False)
    session.say(f"{name} is down and took {len(hit)} VMs with it")


@host.verb("up")
@at_state
@click.argument("name")
def up(session: Session, name: str) -> None:
    """Host NAME is back; its VMs stay in state error until they are rebooted or replaced."""
    from coterie.sandbox.reshape import set_host

    set_host(open_state(session), name, up=True)
    session.say(f"{name} is up")


@host.verb("add")
@at_state
@click.argument("name")
@click.option("--zone", required=True)
@click.option("--rack", help="Default: ZONE-r1.")
@click.option("--cpu", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--ram-mb", type=click.IntRange(min=1), default=131_072, show_default=True)
@click.option("--disk-mb", type=click.IntRange(min=1), default=4_194_304, show_default=True)
def add(session: Session, name: str, zone: str, rack: str | None, cpu: int, ram_mb: int, disk_mb: int) -> None:
    """Add host NAME; a new zone comes with its first host."""
    from coterie.sandbox.layout import Host
    from coterie.sandbox.reshape import add_host

    add_host(open_state(session), Host(name, zone, rack or f"{zone}-r1", cpu, ram_mb, disk_mb))
    session.say(f"{name} is up")


@host.verb("remove")
@at_state
@click.argument("name")
def remove(session: Session, name: str) -> None:
    """Remove the empty host NAME."""
    from coterie.sandbox.reshape import remove_host

    remove_host(open_state(session), name)
    session.say(f"{name} is gone")


@noun("vm")
def vm(session: Session) -> None:
    """Stop, break or delete VMs without a request of their owners."""
    show_all(session)


@vm.verb("kill")
@at_state
@click.argument("cid")
@click.option("--to", type=click.Choice(["stopped", "error"]), default="stopped", show_default=True)
def kill(session: Session, cid: str, to: str) -> None:
    """VM CID stops or breaks; it keeps its host and addresses."""
    from coterie.sandbox.reshape import kill_vm

    kill_vm(open_state(session), cid, to)
    session.say(f"{cid} is in state {to}")


@vm.verb("delete")
@at_state
@click.argument("cid")
def delete(session: Session, cid: str) -> None:
    """VM CID is gone; its disks stay."""
    from coterie.sandbox.reshape import delete_vm

    delete_vm(open_state(session), cid)
    session.say(f"{cid} is gone")


@sandbox.verb("reset")
@at_state
def reset(session: Session) -> None:
    """Empty the datacenter: every VM, disk, group and fault in it is gone; its layout stays."""
    from coterie.sandbox.reset import reset as empty

    datacenter = open_state(session)
    session.confirm(f"Delete everything in {datacenter.store.path}?")
    empty(datacenter)
    session.say(f"{datacenter.store.path} is empty")


sandbox.add_command(host)
sandbox.add_command(vm)
