"""One run of a program: bounded in time and size, and nothing of it outlives a time-out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.cpi.drivers.exec.process import Finished, Limits, run

LIMITS = Limits(timeout_s=60, stdout=1000, stderr=10)
Run = Callable[..., Finished]


@pytest.fixture
def shell(tmp_path: Path) -> Run:
    def run_it(script: str, request: bytes = b"", limits: Limits = LIMITS) -> Finished:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return run(str(path), request, {"PATH": "/usr/bin:/bin"}, limits)

    return run_it


def test_input_ends_and_output_comes_back(shell: Run) -> None:
    assert shell("cat; echo loud >&2", b"hello") == Finished(b"hello", b"loud\n")


def test_the_exit_code_means_nothing(shell: Run) -> None:
    assert shell("echo yes; exit 7").stdout == b"yes\n"


def test_a_program_that_does_not_read_is_no_trouble(shell: Run) -> None:
    assert shell("exec <&-; echo yes", b"x" * 1_000_000) == Finished(b"yes\n", b"")


def test_only_the_end_of_stderr_is_kept(shell: Run) -> None:
    assert shell("seq 1 5000 >&2; echo yes") == Finished(b"yes\n", b"4999\n5000\n")


def test_too_long_an_answer_is_cut_short(shell: Run) -> None:
    finished = shell("yes | head -c 10000000; sleep 600")
    assert finished.trouble == "it wrote more than 1000 bytes"


def test_a_time_out_ends_the_program_and_its_children(shell: Run, tmp_path: Path) -> None:
    child = tmp_path / "child"
    finished = shell(f"sleep 600 & echo $! > {child}; wait", limits=Limits(1, 1000, 10))
    assert finished.trouble == "it did not end within 1 s and was killed"
    assert _ends(int(child.read_text()))


def test_a_child_that_holds_the_pipes_does_not_hold_the_answer(shell: Run, tmp_path: Path) -> None:
    child = tmp_path / "child"
    try:
        assert shell(f"sleep 600 & echo $! > {child}; echo yes") == Finished(b"yes\n", b"")
    finally:
        os.kill(int(child.read_text()), 9)


def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run(str(tmp_path / "none"), b"", {}, LIMITS)


def _ends(pid: int) -> bool:
    """True once the process is gone or only waits to be collected."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False
