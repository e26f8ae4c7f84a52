"""`explain`: what a field of either document means, from the schema's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from coterie.errors import NotFound
from coterie.manifest.properties import PLACES, describe
from coterie.manifest.rules import FormsOf
from coterie.manifest.schema import CloudConfig, Deployment, Part
from coterie.manifest.schema.fields import FieldView, fields_of, sample

ROOTS: dict[str, type[Part]] = {"deployment": Deployment, "cloud_config": CloudConfig}
_ITEM = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class Explanation:
    """`children`: the names of the fields inside. `default` and `example` are plain JSON values."""

    path: str
    type: str
    required: bool
    default: Any
    description: str
    choices: tuple[str, ...]
    example: Any
    children: tuple[str, ...]


def explain(path: str, forms_of: FormsOf | None = None) -> Explanation:
    """The field at `instance_groups.placement.policy`; those of the cloud config also with `cloud_config.` before.

    `clouds.properties@openstack` and `clouds.properties@openstack.auth_url`: what a driver takes there.
    """
    wanted = _ITEM.sub("", path).strip(" .").lower()
    if "@" in wanted and forms_of is not None:
        return _property(wanted, forms_of)
    for root in ROOTS:
        if wanted == root:
            return _document(root)
        steps = wanted.removeprefix(f"{root}.").split(".")
        found = _find(ROOTS[root], steps)
        if found and (wanted.startswith(f"{root}.") or wanted == ".".join(steps)):
            return _explanation(".".join((root, *steps)) if root == "cloud_config" else ".".join(steps), found)
    raise _unknown(wanted)


def paths(root: str) -> Iterator[str]:
    """Every path of a document, in the schema's order."""
    return _below(ROOTS[root], "cloud_config." if root == "cloud_config" else "")


def _property(wanted: str, forms_of: FormsOf) -> Explanation:
    field, _, rest = wanted.removeprefix("cloud_config.").partition("@")
    driver, _, key = rest.partition(".")
    if field not in PLACES:
        raise NotFound(f"{field[:100]!r} has no properties of drivers", remedy=f"use one of: {', '.join(PLACES)}")
    form = forms_of(driver).get(PLACES[field])
    if form is None:
        raise NotFound(
            f"driver {driver[:100]!r} has no properties here, or is not installed",
            remedy="`coterie explain clouds.driver` names the drivers",
        )
    if not key:
        words = f"What driver {driver} takes in {field}."
        return Explanation(
            wanted, "mapping", bool(form.needed), None, words, (), dict(form.example), tuple(form.readers)
        )
    if key not in form.readers:
        close = get_close_matches(key, form.readers, n=5, cutoff=0.5) or sorted(form.readers)
        raise NotFound(
            f"driver {driver} has no property {key[:100]!r} in {field}",
            remedy=f"did you mean {' or '.join(close[:5])}?",
            details={"close": close[:5]},
        )
    return Explanation(wanted, "property", key in form.needed, None, describe(form, key), (), form.example.get(key), ())


def _find(part: type[Part], steps: list[str]) -> FieldView | None:
    here: type[Part] | None = part
    found = None
    for step in steps:
        found = next((field for field in fields_of(here) if field.name == step), None) if here else None
        here = found.part if found else None
    return found


def _document(root: str) -> Explanation:
    part = ROOTS[root]
    return Explanation(root, "document", True, None, _summary(part), (), sample(part), tuple(part.model_fields))


def _explanation(path: str, field: FieldView) -> Explanation:
    return Explanation(
        path=path,
        type=field.kind,
        required=field.required,
        default=field.default,
        description=field.description,
        choices=field.choices,
        example=field.example,
        children=tuple(field.part.model_fields) if field.part else (),
    )


def _summary(part: type[Part]) -> str:
    return " ".join((part.__doc__ or "").split())


def _below(part: type[Part], prefix: str) -> Iterator[str]:
    for field in fields_of(part):
        yield prefix + field.name
        if field.part:
            yield from _below(field.part, f"{prefix}{field.name}.")


def _unknown(wanted: str) -> NotFound:
    known = [path for root in ROOTS for path in paths(root)]
    tail = wanted.rsplit(".", 1)[-1]
    ending = [path for path in known if path.rsplit(".", 1)[-1] == tail]
    close = list(dict.fromkeys([*ending, *get_close_matches(wanted, known, n=5, cutoff=0.5)]))[:5]
    remedy = (
        f"did you mean {' or '.join(close)}?"
        if close
        else "`explain deployment` and `explain cloud_config` list the fields"
    )
    return NotFound(f"no field is named {wanted[:100]!r}", remedy=remedy, details={"close": close})
