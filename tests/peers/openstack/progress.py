"""What the operator sees while the control plane comes up, and how long each part took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

BEGAN = time.time()
TIMINGS: dict[str, float] = {}


def say(text: str) -> None:
    print(f"[{time.time() - BEGAN:7.1f}s] {text}", flush=True)


def die(text: str) -> NoReturn:
    say(f"FAILED: {text}")
    sys.exit(1)


@contextmanager
def timed(name: str) -> Iterator[None]:
    began = time.time()
    yield
    TIMINGS[name] = round(time.time() - began, 1)
    say(f"{name:<34} {TIMINGS[name]:6.1f} s")
