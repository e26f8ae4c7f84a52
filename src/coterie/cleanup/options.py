"""The options of a cleanup, checked with an error that names the option; and the order of deletions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from coterie.cpi.contract import Kind
from coterie.errors import UsageError

# Objects that use others are deleted before them.
DELETION_ORDER: tuple[Kind, ...] = (
    "vm",
    "port",
    "ip",
    "snapshot",
    "disk",
    "server_group",
    "security_group",
    "keypair",
    "image",
    "folder",
)
DAY_S = 86_400.0
_FEWEST_LETTERS = 3  # of a name filter: fewer match by accident, or come from an empty variable
_LISTS = ("kinds", "not_kinds", "names", "not_names", "clouds", "not_clouds", "azs", "not_azs")


@dataclass(frozen=True, slots=True)
class Options:
    """Which objects, and how carefully. Empty lists leave nothing out."""

    kinds: tuple[str, ...] = ()
    not_kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # globs
    not_names: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()
    not_clouds: tuple[str, ...] = ()
    azs: tuple[str, ...] = ()
    not_azs: tuple[str, ...] = ()
    grace_s: float = DAY_S  # unused for so long, by our own clock, before it goes
    older_than_s: float = 0.0  # age by the cloud's clock
    undo_s: float = 7 * DAY_S  # how long an unused disk is kept; 0: it goes with the rest
    disks: Literal["keep", "snapshot"] = "keep"
    keep_stemcells: int = 2  # newest unused images of each name and cloud
    cap: int = 20  # deletes of one kind in one cloud
    cap_percent: float = 25.0  # of what we have of that kind there; counts above five deletes
    rate: float = 5.0  # deletes a second and cloud
    expires_s: float = DAY_S  # how long the plan may be applied
    hours: str = ""  # UTC, for example 22-6: no delete begins outside

    def wire(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> Options:
        given = {name: option for name, option in value.items() if option is not None}
        unknown = sorted(given.keys() - {field.name for field in fields(Options)})
        if unknown:
            raise UsageError(f"cleanup has no option {unknown[0]!r}", remedy="see `coterie cleanup --help`")
        read: dict[str, Any] = {name: tuple(v) if name in _LISTS else v for name, v in given.items()}
        made = Options(**read)
        _check(made)
        return made


def _check(options: Options) -> None:
    for name in ("kinds", "not_kinds"):
        strange = sorted(set(getattr(options, name)) - set(DELETION_ORDER))
        if strange:
            raise UsageError(
                f"{name}: cleanup knows no kind {strange[0]!r}", remedy=f"use some of: {', '.join(DELETION_ORDER)}"
            )
    for name in _LISTS:
        _check_words(name, getattr(options, name))
    for name in ("grace_s", "older_than_s", "undo_s", "keep_stemcells", "cap", "cap_percent", "expires_s"):
        if getattr(options, name) < 0:
            raise UsageError(f"{name} is {getattr(options, name)}", remedy="give 0 or more")
    if options.rate <= 0:
        raise UsageError(f"rate is {options.rate}", remedy="give deletes a second, more than 0")
    if options.disks not in ("keep", "snapshot"):
        raise UsageError(f"disks is {options.disks!r}", remedy="use keep or snapshot")
    if options.hours:
        within(options.hours, 0.0)


def _check_words(name: str, words: tuple[str, ...]) -> None:
    for word in words:
        letters = sum(letter not in "*?[]" for letter in word)
        if letters < (_FEWEST_LETTERS if name in ("names", "not_names") else 1):
            raise UsageError(
                f"{name}: {word!r} is too short to mean anything",
                why="an empty or tiny filter usually comes from an unset variable",
                remedy=f"give at least {_FEWEST_LETTERS} letters of a name, or leave the filter out",
            )


def within(hours: str, moment: float) -> bool:
    """Whether a moment lies in hours such as `22-6` (UTC; the end is not part of it)."""
    begin, dash, end = hours.partition("-")
    if not (dash and begin.strip().isdigit() and end.strip().isdigit() and int(begin) < 24 and int(end) <= 24):
        raise UsageError(f"hours is {hours!r}", remedy="give two hours of the day in UTC, for example 22-6")
    first, last, now = int(begin), int(end), int(moment // 3600) % 24
    return first <= now < last if first < last else now >= first or now < last
