"""What users may write for a driver: a form for each place, with a reader for each key. A form tells all mistakes at
once, so that they can be shown with their lines before anything is done, and reads for the driver what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from coterie.cpi.contract.errors import InvalidCall
from coterie.slotted import dataclass, field

Reader = Callable[[Any], Any]  # gives the value, or raises a ValueError that says how to write it
Place = Literal["cloud", "vm", "disk", "network"]  # a cloud's properties; the cloud_properties of the others


@dataclass(frozen=True, slots=True)
class PropertyMistake:
    """A mistake. `key` is where it is, or what is missing."""

    key: str
    what: str
    remedy: str


def _nothing(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    return ()


_NEVER_RIGHT = object()  # no value of JSON or YAML


@dataclass(frozen=True, slots=True)
class Form:
    """`needed`: keys that must be there, each with its remedy. `between`: rules between the keys, asked for values that
    are each right by themselves. `secret`: no value is ever repeated, since it may be a secret in the wrong place.
    `public`: keys whose values are names and addresses in the cloud, so that texts about it may show them.
    `example`: a small set of values without a mistake, for users who begin. `unsupported`: words of other CPIs for the
    same cloud, each with the reason why it is refused and what to do instead."""

    readers: Mapping[str, Reader]
    needed: Mapping[str, str] = field(default_factory=dict)
    between: Callable[[Mapping[str, Any]], Iterable[PropertyMistake]] = _nothing
    secret: bool = False
    public: frozenset[str] = frozenset()
    example: Mapping[str, Any] = field(default_factory=dict)
    unsupported: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def how_to_write(self, key: str) -> str:
        """The words of the key's reader for a value that cannot be right."""
        try:
            self.readers[key](_NEVER_RIGHT)
        except ValueError as error:
            return str(error)
        return ""

    def hidden_part(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What no text may show."""
        return {key: value for key, value in given.items() if key not in self.public}

    def mistakes(self, given: Mapping[str, Any]) -> list[PropertyMistake]:
        """All mistakes."""
        return self._read(given)[1]

    def key_mistakes(self, given: Mapping[str, Any]) -> list[PropertyMistake]:
        """Keys that are wrong by themselves, whatever may be written elsewhere."""
        return self._by_key(given)[1]

    def read(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The values of the keys that are given; `where` stands before each key in the error."""
        values, mistakes = self._read(given)
        if not mistakes:
            return values
        raise InvalidCall(
            "; ".join(f"{where}.{mistake.key} {mistake.what}" for mistake in mistakes),
            remedy="; ".join(dict.fromkeys(mistake.remedy for mistake in mistakes)),
        )

    def _read(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[PropertyMistake]]:
        values, mistakes = self._by_key(given)
        wrong = {mistake.key for mistake in mistakes}
        missing = [key for key in self.needed if key not in values and key not in wrong]
        mistakes += [PropertyMistake(key, "is missing", self.needed[key]) for key in missing]
        return values, mistakes or list(self.between(values))

    def _by_key(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[PropertyMistake]]:
        values: dict[str, Any] = {}
        mistakes: list[PropertyMistake] = []
        for key, value in given.items():
            if key in self.unsupported:
                why, remedy = self.unsupported[key]
                mistakes.append(PropertyMistake(key, f"is not supported: {why}", remedy))
            elif key not in self.readers:
                mistakes.append(PropertyMistake(str(key), "is not known", f"use some of: {', '.join(self.readers)}"))
            elif value is not None:
                try:
                    values[key] = self.readers[key](value)
                except ValueError as error:
                    mistakes.append(PropertyMistake(key, "is wrong" if self.secret else f"is {value!r}", str(error)))
        return values, mistakes


Forms = Mapping[Place, Form]
