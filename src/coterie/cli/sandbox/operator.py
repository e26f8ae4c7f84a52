"""`coterie sandbox operator`: objects that an operator creates in an account of ours. They carry no mark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.sandbox.noun import at_state, open_state, sandbox
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.sandbox.datacenter import Account

F = TypeVar("F", bound=Callable[..., Any])
_IMAGE = "operators-image"


@noun("operator")
def operator(session: Session) -> None:
    """Make foreign things: groups, VMs, networks, security groups, host groups."""
    session.data(click.get_current_context().get_help())


def in_account(function: F) -> F:
    option = click.option("--account", metavar="NAME", help="Whose account; default: the only one.")
    return at_state(option(function))


@operator.verb("create-group")
@in_account
@click.argument("name")
@click.option("--policy", default="soft-anti-affinity", show_default=True)
@click.option("--zone", help="Where groups are single-writer: the zone.")
@click.option(
    "--member", "members", multiple=True, metavar="CID", help="Where groups are single-writer: its first VMs."
)
def create_group(
    session: Session, account: str | None, name: str, policy: str, zone: str | None, members: tuple[str, ...]
) -> None:
    """A server group; its id."""
    from coterie.sandbox.server_groups import create_server_group

    tenant = _account(session, account)
    session.data(create_server_group(tenant, name=name, policy=policy, zone=zone, members=members).id)


@operator.verb("delete-group")
@at_state
@click.argument("cid")
def delete_group(session: Session, cid: str) -> None:
    """Delete a server group, no matter which account created it."""
    from coterie.sandbox import reshape

    reshape.delete_group(open_state(session), cid)
    session.say(f"{cid} is gone")


@operator.verb("set-policy")
@at_state
@click.argument("cid")
@click.argument("policy")
def set_policy(session: Session, cid: str, policy: str) -> None:
    """Another policy for a living server group."""
    from coterie.sandbox.reshape import set_group_policy

    set_group_policy(open_state(session), cid, policy)
    session.say(f"{cid} has policy {policy}")


@operator.verb("create-vm")
@in_account
@click.argument("name")
@click.option("--zone", help="Default: any.")
@click.option("--group", metavar="CID", help="The server group it boots into.")
@click.option("--cpu", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--ram-mb", type=click.IntRange(min=1), default=1024, show_default=True)
@click.option("--ip", help="Its address on the network `default`.")
def create_vm(
    session: Session,
    account: str | None,
    name: str,
    zone: str | None,
    group: str | None,
    cpu: int,
    ram_mb: int,
    ip: str | None,
) -> None:
    """A running VM; its id."""
    from coterie.sandbox.fit import Demand
    from coterie.sandbox.nics import NicRequest
    from coterie.sandbox.vms import create_vm as boot

    tenant = _account(session, account)
    nics = [NicRequest("default", "default", ip, "default")] if ip else []
    size = Demand(cpu, ram_mb, 1024, zone)
    session.data(boot(tenant, name=name, size=size, image=_image(tenant), group=group, nics=nics).id)


@operator.verb("create-network")
@in_account
@click.argument("name")
@click.option("--range", "cidr", metavar="CIDR", help="Default: a free /24.")
def create_network(session: Session, account: str | None, name: str, cidr: str | None) -> None:
    """A network; its id."""
    from coterie.sandbox.networks import create_network as make

    session.data(make(_account(session, account), name=name, range=cidr).id)


@operator.verb("create-security-group")
@in_account
@click.argument("name")
def create_security_group(session: Session, account: str | None, name: str) -> None:
    """A security group without rules; its id."""
    from coterie.sandbox.security_groups import create_security_group as make

    session.data(make(_account(session, account), name=name).id)


@operator.verb("host-group")
@at_state
@click.argument("name")
@click.argument("hosts", nargs=-1, required=True)
def host_group(session: Session, name: str, hosts: tuple[str, ...]) -> None:
    """The HOSTS that groups with host-affinity may name together as NAME."""
    from coterie.sandbox.reshape import set_host_group

    set_host_group(open_state(session), name, hosts)
    session.say(f"{name} is {', '.join(hosts)}")


def _account(session: Session, name: str | None) -> Account:
    from coterie.sandbox.accounts import open_account
    from coterie.sandbox.view import picture

    datacenter = open_state(session)
    known = [account["name"] for account in picture(datacenter.store)["accounts"]]
    if name is None and len(known) != 1:
        raise UsageError(
            "--account is missing", why=f"there are {len(known)} accounts: {', '.join(known)}", remedy="name one"
        )
    return open_account(datacenter, name or known[0], operator=True)


def _image(tenant: Account) -> str:
    from coterie.sandbox.images import create_image

    return create_image(tenant, name=_IMAGE, client_token=_IMAGE).id


sandbox.add_command(operator)
