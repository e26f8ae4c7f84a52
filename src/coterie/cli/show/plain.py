"""Texts from clouds and other users, made safe for a terminal: no escape sequence or bidi mark stays raw."""

from __future__ import annotations

import re

# C0 and C1 but for tab and line feed, line separators, marks that change the direction of text, half characters.
_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
_CHARACTER = re.compile(f"[{_UNSAFE}]")
_OUR_COLOURS = re.compile(f"(\x1b\\[(?:[0-9]|3[0-9])m)|[{_UNSAFE}]")


def plain(text: object) -> str:
    """One line, for a value inside of a line."""
    return clean(" ".join(str(text).splitlines()))


def clean(text: str, *, colours: bool = False) -> str:
    """Lines stay lines. `colours`: the codes that `Paint` writes stay, so values inside must be `plain` already."""
    # The escapes are JSON's, so that JSON stays valid.
    if colours:
        return _OUR_COLOURS.sub(lambda found: found[1] or _escape(found[0]), text)
    return _CHARACTER.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"
