"""`coterie ssh NODE` and `coterie ssh-config`: log in to nodes with the ssh of this machine."""

from __future__ import annotations

import os

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.reach.login import Login, Logins
from coterie.errors import UsageError


@verb("ssh")
@click.argument("node", metavar="NODE")
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@click.option("--user", metavar="USER", help="Instead of the manifest's.")
@click.option("--print", "only_print", is_flag=True, help="Print the command instead of running it.")
def ssh(session: Session, node: str, command: tuple[str, ...], user: str | None, only_print: bool) -> None:
    """Log in to NODE ([DEPLOYMENT/]GROUP/INDEX, uuid, or the name of an enrolled one), or run COMMAND there.

    User, port, key, jump host and network are those of `ssh` in the manifest. Arguments of ssh itself are set in your
    own ~/.ssh/config. The host key is remembered by VM: a recreated node has a new one.
    """
    login = Logins(session.client).find(session.client.nodes.get(node))
    words = ssh_words(login, user, command)
    if only_print:
        import shlex

        session.data(shlex.join(words))
        return
    session.close()
    try:
        os.execvp(words[0], words)  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        raise UsageError("there is no ssh on this machine", remedy="install OpenSSH's client") from None


@verb("ssh-config")
@click.option("--deployment", metavar="NAME")
def ssh_config(session: Session, deployment: str | None) -> None:
    """Print settings for ssh with a host for each node; use them as in `ssh -F FILE DEPLOYMENT/GROUP/INDEX`."""
    found = session.client.nodes.list(deployment=deployment)
    session.data("\n".join(_host(login) for login in Logins(session.client).find_all(found)))


def ssh_words(login: Login, user: str | None, command: tuple[str, ...]) -> list[str]:
    words = ["ssh", "-p", str(login.port), "-o", f"HostKeyAlias={login.key_alias}"]
    if login.jump_host:
        words += ["-J", login.jump_host]
    if login.identity_file:
        words += ["-i", os.path.expanduser(login.identity_file)]  # noqa: PTH111 - stays text
    if user or login.user:
        words += ["-l", user or login.user or ""]
    return [*words, "--", login.address, *command]


def _host(login: Login) -> str:
    lines = [f"Host {login.name}", f"  HostName {login.address}", f"  HostKeyAlias {login.key_alias}"]
    given = {
        "Port": login.port if login.port != 22 else None,
        "User": login.user,
        "ProxyJump": login.jump_host,
        "IdentityFile": login.identity_file,
    }
    return "\n".join([*lines, *[f"  {name} {value}" for name, value in given.items() if value is not None]])
