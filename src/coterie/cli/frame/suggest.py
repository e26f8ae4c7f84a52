"""What a mistyped verb was meant to be. A guess must be safe to follow: near, and never a verb that destroys."""

from __future__ import annotations

from collections.abc import Iterable

# Verbs that delete, stop or replace something, and those that change what others rely on.
DESTRUCTIVE = frozenset(
    [
        "abandon",
        "accept",
        "apply",
        "cancel",
        "cleanup",
        "clear",
        "delete",
        "destroy",
        "detach",
        "down",
        "forget",
        "kill",
        "move",
        "off",
        "recreate",
        "remove",
        "repin",
        "reset",
        "restart",
        "retire",
        "revoke",
        "settle",
        "stop",
        "undo",
    ]
)


def suggest(word: str, verbs: Iterable[str]) -> str | None:
    """The only verb that one slip of the keyboard made into `word`."""
    near = [verb for verb in verbs if verb not in DESTRUCTIVE and is_one_slip(word, verb)]
    return near[0] if len(near) == 1 else None


def is_one_slip(word: str, verb: str) -> bool:
    """Whether they differ by one character too many, missing, wrong, or exchanged with its neighbour."""
    if word == verb:
        return False
    start = next((n for n, (a, b) in enumerate(zip(word, verb, strict=False)) if a != b), min(len(word), len(verb)))
    rest, wanted = word[start:], verb[start:]
    return (
        rest[1:] == wanted
        or rest == wanted[1:]
        or rest[1:] == wanted[1:]
        or (rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:] and len(rest) > 1)
    )
