"""One run of a foreign program: input in, output out, both bounded, and nothing of it left running after a time-out."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from coterie.slotted import dataclass

_CHUNK = 65536
_TICK_S = 0.05
# A program that has ended may leave a child that holds its pipes open; its own words are in them already.
_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    timeout_s: float
    stdout: int  # bytes; more than that is no answer
    stderr: int  # bytes kept, the last ones


@dataclass(frozen=True, slots=True)
class Finished:
    stdout: bytes
    stderr: bytes
    trouble: str = ""  # why it was killed, if it was


def run(path: str, request: bytes, environment: Mapping[str, str], limits: Limits) -> Finished:
    """OSError if the program cannot be started; then certainly nothing was done."""
    pipe = subprocess.PIPE
    # Its own session, so that a time-out ends the children too.
    process = subprocess.Popen(
        [path], stdin=pipe, stdout=pipe, stderr=pipe, env=dict(environment), start_new_session=True
    )
    try:
        return _Run(process, request, limits).finish()
    finally:
        _end(process)


class _Run:
    """The pipes of a running program. None may block another, so one loop serves all three."""

    def __init__(self, process: subprocess.Popen[bytes], request: bytes, limits: Limits) -> None:
        assert process.stdin and process.stdout and process.stderr
        self._process, self._limits = process, limits
        self._unsent = memoryview(request)
        self._stdout, self._stderr = bytearray(), bytearray()
        self._selector = selectors.DefaultSelector()
        self._watch(process.stdin, selectors.EVENT_WRITE, self._send)
        self._watch(process.stdout, selectors.EVENT_READ, self._hear)
        self._watch(process.stderr, selectors.EVENT_READ, self._note)

    def finish(self) -> Finished:
        deadline = time.monotonic() + self._limits.timeout_s
        trouble = ""
        with self._selector:
            self._serve(deadline, lambda: self._process.poll() is not None)
            if self._exits(deadline):
                self._serve(time.monotonic() + _GRACE_S, lambda: False)
            else:
                trouble = f"it did not end within {self._limits.timeout_s:g} s and was killed"
        if self._overflows():
            trouble = f"it wrote more than {self._limits.stdout} bytes"
        return Finished(bytes(self._stdout), bytes(self._stderr), trouble)

    def _exits(self, deadline: float) -> bool:
        """Also after its pipes are closed it may take a moment to end."""
        if self._overflows():
            return False
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _overflows(self) -> bool:
        return len(self._stdout) > self._limits.stdout

    def _serve(self, deadline: float, enough: Callable[[], bool]) -> None:
        """Until all pipes are closed, the answer is too long, it is enough, or time is up."""
        while self._selector.get_map() and not self._overflows() and not enough():
            left = deadline - time.monotonic()
            if left <= 0:
                return
            for key, _ in self._selector.select(min(left, _TICK_S)):
                key.data(key.fileobj)

    def _watch(self, pipe: IO[bytes], event: int, handle: Callable[[Any], None]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, event, handle)

    def _send(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._unsent = self._unsent[os.write(pipe.fileno(), self._unsent[:_CHUNK]) :]
            if self._unsent:
                return
        self._close(pipe)

    def _hear(self, pipe: IO[bytes]) -> None:
        self._stdout += self._read(pipe)

    def _note(self, pipe: IO[bytes]) -> None:
        self._stderr += self._read(pipe)
        del self._stderr[: -self._limits.stderr]

    def _read(self, pipe: IO[bytes]) -> bytes:
        data = os.read(pipe.fileno(), _CHUNK)
        if not data:
            self._close(pipe)
        return data

    def _close(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
