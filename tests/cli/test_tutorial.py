"""docs/tutorial.md, run literally: every command in its order, and what it prints compared with what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Machine

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_END = "-- end of block {} --"


def run_blocks(machine: Machine, scripts: list[str]) -> list[str]:
    """What each block printed. They share one shell, as a reader's do."""
    marked = [f"{{\n{script}\n}}\necho '{_END.format(n)}'" for n, script in enumerate(scripts)]
    programs = f"{Path(sys.executable).parent}:{machine.environment()['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "exec 2>&1\n" + "\n".join(marked)],
        env={**machine.environment(), "PATH": programs},
        cwd=machine.folder,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    rest, outputs = done.stdout, []
    for n in range(len(scripts)):
        output, _, rest = rest.partition(_END.format(n))
        outputs.append(output)
    return outputs


@pytest.fixture
def reader(tmp_path: Path) -> Machine:
    """The tutorial's own state folder lies in its folder; its last block stops the Director there."""
    machine = Machine(tmp_path)
    machine.env["COTERIE_STATE"] = str(tmp_path / "tutorial" / "state")
    return machine


def test_the_tutorial_does_what_it_says(reader: Machine) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    scripts = [text for kind, text in blocks if kind == "sh"]
    outputs = iter(run_blocks(reader, scripts))
    output = ""
    compared = 0
    for kind, text in blocks:
        if kind == "sh":
            output = next(outputs)
            continue
        for line in filter(None, text.splitlines()):
            assert squeeze(line) in squeeze(output), f"the page shows {line!r}, printed was:\n{output}"
            compared += 1
    assert compared > 20


def squeeze(text: str) -> str:
    """Columns may be wider elsewhere."""
    return re.sub(r"\s+", " ", text).strip()


def test_the_five_minutes_of_the_readme_show_the_dead_node_at_once(machine: Machine) -> None:
    (block,) = re.findall(r"```\n(coterie demo --files.*?)```", (PAGE.parents[1] / "README.md").read_text(), re.DOTALL)
    lines = [line.partition("#")[0].strip() for line in block.splitlines()]
    asks = ("coterie delete ", "coterie disks delete ")  # without a terminal they want to be told
    scripts = [f"{line} --yes" if line.startswith(asks) else line for line in lines]
    outputs = dict(zip(lines, run_blocks(machine, scripts), strict=True))
    assert "dead" in outputs["coterie look"]
    assert "holds" in outputs["coterie placement audit kafka"]
    assert machine.run("disks", "-o", "json").json["items"] == machine.run("nodes", "-o", "json").json["items"] == []
    machine.run("local", "stop")
