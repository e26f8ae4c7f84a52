"""`coterie demo`: deploys, changes and deletes a cluster on the simulated datacenter, by the commands that it shows."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from coterie.cli.demo.files import VERSIONS, write_files
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.errors import CoterieError

# -P: nothing that lies in the working folder may stand in for a module.
_PROGRAM = (sys.executable, "-P", "-c", "from coterie.cli.main import main; main()")

_STORY: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "A cloud to deploy on, and two stemcells",
        ("clouds set cloud.yml", *(f"stemcells upload stemcell-{version}.tgz" for version in VERSIONS)),
    ),
    ("What would happen?", ("plan kafka.yml",)),
    ("Do it", ("deploy kafka.yml --yes",)),
    ("Which node is on which host and rack, and are the promises kept?", ("placement audit kafka",)),
    (
        "Scale up, upgrade the stemcell, tighten a policy",
        ("deploy kafka-v2.yml --yes", "placement audit kafka", "nodes"),
    ),
    ("Delete everything, disks too", ("delete kafka --delete-disks --yes",)),
    ("What is left in the cloud", ("sandbox show",)),
)


@verb("demo")
@click.option(
    "--files",
    "only_files",
    metavar="FOLDER",
    type=click.Path(file_okay=False),
    help="Only write its documents and stemcells to FOLDER.",
)
def demo(session: Session, only_files: str | None) -> None:
    """Deploy, change and delete a cluster on a simulated datacenter of its own; takes a minute, needs no cloud.

    It uses a folder and a Director of its own and touches nothing else. With --files it only writes its documents and
    stemcells to FOLDER, for the tutorial and for your own trials; files that are there stay as they are.
    """
    if only_files is not None:
        for file in write_files(Path(only_files)):
            session.data(str(file))
        return
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as folder:
        _play(session, Path(folder))


def _play(session: Session, folder: Path) -> None:
    write_files(folder)
    with _environment(folder) as environment:
        for title, commands in _STORY:
            session.data(f"\n{session.paint(f'▶ {title}', 'bold')}")
            for command in commands:
                session.data(session.paint(f"$ coterie {command}", "dim"))
                _run(command.split(), folder, environment)
        _require_empty(folder, environment)
    session.data(f"\n{session.paint('▶ Nothing: the cloud is as empty as before.', 'bold')}")
    session.data("Go on by yourself: coterie demo --files FOLDER")


@contextlib.contextmanager
def _environment(folder: Path) -> Iterator[dict[str, str]]:
    """Of the commands: no setting of the user reaches them, so that they find no Director but their own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("COTERIE_")}
    own |= {"COTERIE_STATE": str(folder / "state"), "COTERIE_CONFIG": str(folder / "no-config.toml")}
    try:
        yield own
    finally:
        subprocess.run([*_PROGRAM, "-q", "local", "stop"], env=own, cwd=folder, check=False)


def _run(words: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    sys.stdout.flush()
    done = subprocess.run([*_PROGRAM, *words], env=environment, cwd=folder, check=False)
    if done.returncode:
        raise CoterieError(
            f"the demonstration stopped at: coterie {shlex.join(words)}",
            why=f"it ended with {done.returncode}",
            remedy="its own words stand above; `coterie doctor` may show what this machine lacks",
        )


def _require_empty(folder: Path, environment: dict[str, str]) -> None:
    words = [*_PROGRAM, "sandbox", "show", "-o", "json"]
    shown = subprocess.run(words, env=environment, cwd=folder, check=True, capture_output=True)
    accounts = json.loads(shown.stdout)["accounts"]
    left = [f"{one['used']} {name}" for each in accounts for name, one in each["quotas"].items() if one["used"]]
    if left:
        raise CoterieError(
            "the simulated cloud is not empty", why=", ".join(left), remedy="this is a defect: report it, please"
        )
