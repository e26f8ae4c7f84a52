"""Templates to HTML. Every value is escaped; nothing is marked as safe but our own pictures."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from coterie.times import ago, read, span, took

_HERE = "coterie.director.console"
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
# The shapes beside the words of states: no information by colour alone.
_TONES = {
    "ok": ("up", "live", "done", "ok", "yes", "holds", "valid", "swept", "deleted", "alive"),
    "busy": ("changing", "running", "planned", "intended", "deleting", "open", "ready", "cancelling", "surveying",
             "sweeping"),
    "warn": ("unknown", "drifted", "late", "draining", "cancelled", "expired", "doubt"),
    "bad": ("failing", "failed", "dead", "missing", "broken", "no", "error", "silent", "refused", "revoked"),
    "kept": ("kept", "reserved", "adopted", "stopped", "keep"),
}  # fmt: skip
_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words}
_SIGNS = {"ok": "●", "busy": "◐", "warn": "▲", "bad": "✕", "kept": "◆", "off": "○"}


def page(template: str, values: dict[str, Any]) -> str:
    return _environment().get_template(template).render(values)


def asset(name: str) -> tuple[bytes, str] | None:
    """The bytes of an asset and their type; None if there is none of this name."""
    return _assets().get(name)


@cache
def _assets() -> dict[str, tuple[bytes, str]]:
    listed = [file for file in (files(_HERE) / "assets").iterdir() if file.name[file.name.rfind(".") :] in _KINDS]
    return {file.name: (file.read_bytes(), _KINDS[file.name[file.name.rfind(".") :]]) for file in listed}


def tone(word: Any) -> str:
    return _TONE_OF.get(str(word), "off")


@cache
def _asset_url(name: str) -> str:
    """With the hash of the content: browsers keep it until it changes."""
    found = asset(name)
    assert found is not None, name  # names stand in our own templates
    return f"/assets/{name}?v={hashlib.sha256(found[0]).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"ago": ago, "span": span, "took": took, "clock": clock, "part": _part, "tone": tone}
    made.globals |= {"asset": _asset_url, "sign": lambda word: _SIGNS[tone(word)]}
    return made


def _part(text: Any) -> str:
    """One part of a path in a URL."""
    return quote(str(text), safe="")


def clock(text: str | None) -> str:
    """A moment in full, for the title of one that is told by its age."""
    return "–" if text is None else read(text).strftime("%Y-%m-%d %H:%M:%S UTC")
