"""What a command costs above a bare interpreter: `coterie --help` and `version`, and `coterie nodes -o json` against a
running local Director. CPU seconds of the command's own process, medians. Prints ratios; asserts nothing.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 15


def main() -> None:
    program = str(Path(sys.executable).parent / "coterie")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COTERIE_STATE": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
        subprocess.run([program, "nodes", "-o", "json"], env=environment, check=True, stdout=subprocess.DEVNULL)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "coterie --help": [program, "--help"],
            "coterie version": [program, "version"],
            "coterie nodes -o json": [program, "nodes", "-o", "json"],
        }
        costs = {name: _median_ms(command, environment) for name, command in commands.items()}
        subprocess.run([program, "-q", "local", "stop"], env=environment, check=True)
    bare = costs["python -c pass"]
    for name, cost in costs.items():
        print(f"{name:<24} {cost:>7.1f} ms CPU {cost / bare:>6.2f} ×")


def _median_ms(command: list[str], environment: dict[str, str]) -> float:
    return statistics.median(_cpu_ms(command, environment) for _ in range(ROUNDS))


def _cpu_ms(command: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


if __name__ == "__main__":
    main()
