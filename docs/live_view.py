"""Writes docs/live-view.svg, the picture in the README: a real deploy on a terminal, stopped at half of its way.

Run it with the project's environment: `.venv/bin/python docs/live_view.py`. The simulated cloud is slowed down, so that
several steps run at that moment.
"""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from coterie.cli.demo.files import write_files

COLUMNS = 108
PROGRAM = [sys.executable, "-c", "from coterie.cli.main import main; main()"]
COMMAND = ["deploy", "kafka.yml", "--yes"]
ENOUGH = 5  # nodes that are up when the picture is taken
SEQUENCE = re.compile(r"\x1b\[[?]?([0-9;]*)([A-Za-z])")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        environment = {**os.environ, "COTERIE_STATE": str(folder / "state"), "TERM": "xterm-256color"}
        environment |= {"COLUMNS": str(COLUMNS), "LINES": "40"}
        try:
            for words in (
                ["clouds", "set", "cloud.yml"],
                ["clouds", "check", "-o", "json"],
                ["stemcells", "upload", "stemcell-1.1.tgz"],
                ["sandbox", "fault", "add", "create_vm", "latency", "--ms", "1500", "--times", "9"],
            ):
                subprocess.run([*PROGRAM, "-q", *words], env=environment, cwd=folder, check=True)
            lines = screen(record(folder, environment))
        finally:
            subprocess.run([*PROGRAM, "-q", "local", "stop"], env=environment, cwd=folder, check=False)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ coterie " + " ".join(COMMAND), style="bold"))
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop")
    console.save_svg(str(Path(__file__).parent / "live-view.svg"), title="coterie", unique_id="live-view")


def record(folder: Path, environment: dict[str, str]) -> str:
    """What the terminal got until enough nodes are up, to the end of a frame. The deploy goes on by itself."""
    end, inner = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *COMMAND], stdin=inner, stdout=inner, stderr=inner, env=environment, cwd=folder
    )
    os.close(inner)
    shown = ""
    give_up = time.monotonic() + 120
    while shown.count(" on z") < ENOUGH and time.monotonic() < give_up:
        if select.select([end], [], [], 0.2)[0]:
            shown += os.read(end, 65536).decode("utf-8", "replace")
    while select.select([end], [], [], 0.05)[0]:
        shown += os.read(end, 65536).decode("utf-8", "replace")
    process.kill()
    process.wait()
    os.close(end)
    return shown


def screen(shown: str) -> list[str]:
    """The lines of the terminal at the end: a live view goes up some lines, clears them and writes them again."""
    lines, row = [""], 0
    position = 0
    while position < len(shown):
        sequence = SEQUENCE.match(shown, position)
        if sequence is None:
            if shown[position] == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif shown[position] != "\r":
                lines[row] += shown[position]
            position += 1
            continue
        number, kind = sequence.groups()
        if kind == "A":
            row = max(0, row - int(number or 1))
        elif kind == "K":
            lines[row] = ""
        elif kind == "m":
            lines[row] += sequence.group()
        position = sequence.end()
    return lines


if __name__ == "__main__":
    main()
