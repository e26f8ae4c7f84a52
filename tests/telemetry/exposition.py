"""Reads Prometheus' text strictly: every sample belongs to a family that was announced, and has a number."""

from __future__ import annotations

import re

_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?[0-9.e+-]+)')
_PARTS = ("_bucket", "_sum", "_count")


def read(text: str) -> dict[str, float]:
    """Samples as they are written, without their values."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, f"{name} is announced twice"
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            sample = _SAMPLE.fullmatch(line)
            assert sample, line
            assert _family(sample[1], kinds), line
            found[line.rpartition(" ")[0]] = float(sample[3])
    return found


def _family(name: str, kinds: dict[str, str]) -> bool:
    whole = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), "")
    return name in kinds or kinds.get(whole) in ("histogram", "summary")
