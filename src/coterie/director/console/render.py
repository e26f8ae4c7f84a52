"""Templates to HTML. Every value is escaped; nothing is marked as safe but our own pictures."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

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


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """The bytes of an asset and their type; None if there is none of this name."""
    kind = _KINDS.get(name[name.rfind(".") :])
    file = files(_HERE) / "assets" / name
    if kind is None or "/" in name or not file.is_file():
        return None
    return file.read_bytes(), kind


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


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def ago(text: str | None) -> str:
    return "–" if text is None else f"{span((datetime.now(UTC) - moment(text)).total_seconds())} ago"


def took(begin: str | None, end: str | None) -> str:
    if begin is None:
        return "–"
    return span(((moment(end) if end else datetime.now(UTC)) - moment(begin)).total_seconds())


def clock(text: str | None) -> str:
    return "–" if text is None else moment(text).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} d"
