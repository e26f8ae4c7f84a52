"""The entry point: the table of verbs, and the one place where an error becomes words and an exit code."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence

import click

from coterie import __version__
from coterie.cli.frame.flags import add_shared_flags
from coterie.cli.frame.lazy import LazyGroup, Verb
from coterie.errors import CoterieError

COMPLETE = "_COTERIE_COMPLETE"  # set by the scripts of `coterie completion`
VERBS = {
    "deploy": Verb("coterie.cli.deploy:deploy", "create or change a deployment by its manifest"),
    "plan": Verb("coterie.cli.plan:plan", "show what a deploy would do"),
    "delete": Verb("coterie.cli.delete:delete", "delete a deployment"),
    "deployments": Verb("coterie.cli.deployments:deployments", "what is deployed"),
    "groups": Verb("coterie.cli.groups:groups", "server groups and what the clouds hold of them"),
    "nodes": Verb("coterie.cli.nodes:nodes", "the machines under management"),
    "look": Verb("coterie.cli.look:look", "look now: which nodes are up, dead, missing or unhealthy"),
    "ssh": Verb("coterie.cli.reach.ssh:ssh", "log in to a node"),
    "ssh-config": Verb("coterie.cli.reach.ssh:ssh_config", "settings for ssh with a host for each node"),
    "inventory": Verb("coterie.cli.reach.inventory:inventory", "the nodes as an inventory for Ansible"),
    "disks": Verb("coterie.cli.disks:disks", "persistent disks, attached and kept"),
    "stemcells": Verb("coterie.cli.stemcells:stemcells", "images that nodes are made of"),
    "clouds": Verb("coterie.cli.clouds:clouds", "configured clouds and the cloud config"),
    "conductors": Verb("coterie.cli.conductors:conductors", "the processes that run the work"),
    "ring": Verb("coterie.cli.ring:ring", "which conductor a node belongs to, and why"),
    "tasks": Verb("coterie.cli.tasks:tasks", "what is being done, and what was"),
    "events": Verb("coterie.cli.events:events", "what happened"),
    "tokens": Verb("coterie.cli.tokens:tokens", "API tokens for a Director on TCP"),
    "placement": Verb("coterie.cli.placement:placement", "where nodes are, and whether promises hold"),
    "cleanup": Verb("coterie.cli.cleanup:cleanup", "find what was left behind in clouds, and remove it"),
    "recover": Verb("coterie.cli.recover:recover", "write a lost ledger again from what the clouds hold"),
    "explain": Verb("coterie.cli.explain:explain", "what a field of the manifest or cloud config means"),
    "init": Verb("coterie.cli.init:init", "write a manifest and a cloud config to begin with"),
    "validate": Verb("coterie.cli.validate:validate", "check documents without a Director"),
    "schema": Verb("coterie.cli.schema:schema", "the JSON Schema of a document, for editors"),
    "config": Verb("coterie.cli.config:config", "settings and where each came from"),
    "doctor": Verb("coterie.cli.doctor:doctor", "what is wrong here, in one redacted report"),
    "local": Verb("coterie.cli.local:local", "the local Director: status, stop"),
    "sandbox": Verb("coterie.cli.sandbox:sandbox", "show and shape the simulated datacenter"),
    "director": Verb("coterie.cli.director:director", "serve as a Director"),
    "conductor": Verb("coterie.cli.conductor:conductor", "serve as a conductor"),
    "demo": Verb("coterie.cli.demo:demo", "deploy, change and delete a cluster on a simulated datacenter"),
    "version": Verb("coterie.cli.version:version", "print the version"),
    "console": Verb("coterie.cli.console:console", "open the web console"),
    "completion": Verb("coterie.cli.completion:completion", "print a completion script for your shell"),
}


@click.group(cls=LazyGroup, verbs=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="coterie %(version)s")
@add_shared_flags
def coterie() -> None:
    """Deploys groups of machines on any IaaS, keeps their placement promises, and leaves nothing behind."""


def main() -> None:
    sys.exit(run())


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if COMPLETE in os.environ:
        from coterie.cli.frame.shells import register

        register()
    try:
        outcome = coterie.main(words, prog_name="coterie", standalone_mode=False, obj={"argv": words})
        return outcome if isinstance(outcome, int) else 0
    except CoterieError as error:
        return _report_error(error, words)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except Exception as error:
        return _report_error(_unforeseen(error, words), words)


def _report_error(error: CoterieError, words: Sequence[str]) -> int:
    from coterie.cli.show.problem import print_problem

    print_problem(error, as_json=_wants_json(words))
    return error.exit_code


def _unforeseen(error: Exception, words: Sequence[str]) -> CoterieError:
    if {"-v", "--verbose"} & set(words):
        import traceback

        traceback.print_exception(error)
    return CoterieError(
        "this command failed unexpectedly",
        why=f"{type(error).__name__}: {error}",
        remedy="repeat it with -v, and report it together with `coterie doctor --save FILE`",
    )


def _wants_json(words: Sequence[str]) -> bool:
    # An error may come before the flags are parsed, and the caller needs JSON then too.
    pairs = itertools.pairwise(words)
    return (
        any(p in (("-o", "json"), ("--output", "json")) for p in pairs) or "-ojson" in words or "--output=json" in words
    )
