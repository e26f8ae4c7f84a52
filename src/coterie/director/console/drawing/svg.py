"""SVG elements as text. Colours are classes on a page, and plain attributes in a file that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

# The same colours as in console.css; eight pairs that stay apart in grey and for the colour-blind, with a letter each.
FILLS = ("#2f6fb2", "#b8600b", "#2b7d55", "#8a4fa3", "#a33a3a", "#3f7f8c", "#77691c", "#5b5fc7")
INK, LINE, PANEL, MUTED = "#1b232c", "#c6ccd4", "#ffffff", "#55606d"


def attributes(**given: object) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in given.items()
        if value is not None
    )


def element(name: str, *inside: str, **given: object) -> str:
    body = "".join(inside)
    return f"<{name}{attributes(**given)}>{body}</{name}>" if body else f"<{name}{attributes(**given)}/>"


def text(x: float, y: float, words: str, class_: str, **given: object) -> str:
    return element("text", escape(words), x=round(x, 1), y=round(y, 1), class_=class_, **given)


def title(words: str) -> str:
    return element("title", escape(words)) if words else ""


def cut(words: str, room: int) -> str:
    return words if len(words) <= room else words[: max(1, room - 1)] + "…"


def letter(n: int) -> str:
    """A, B, … Z, AA, AB, …"""
    found = ""
    n += 1
    while n:
        n, rest = divmod(n - 1, 26)
        found = chr(65 + rest) + found
    return found


def file(width: float, height: float, label: str, parts: Sequence[str], rules: str) -> str:
    """A whole file, with its own rules of style."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(label)}"><style>{rules}</style>'
        f'<rect width="100%" height="100%" fill="{PANEL}"/>{"".join(parts)}</svg>\n'
    )
