"""The whole schema as Markdown. `python -m coterie.manifest.reference docs/` writes both pages."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from coterie.manifest.explain import ROOTS
from coterie.manifest.schema import Part
from coterie.manifest.schema.fields import FieldView, fields_of

PAGES = {"manifest.md": "deployment", "cloud-config.md": "cloud_config"}
_TITLES = {"deployment": "The manifest", "cloud_config": "The cloud config"}
_NOTE = "Generated from the schema by `python -m coterie.manifest.reference docs/`. Do not edit."


def render(root: str) -> str:
    """One page: the fields of the document, then those of each part inside it."""
    lines = [f"# {_TITLES[root]}", "", f"<!-- {_NOTE} -->", ""]
    for path, part in _parts(ROOTS[root], ""):
        lines += [f"## `{path}`", ""] if path else []
        lines += [*_paragraphs(part), "", *_table(part, path), ""]
    return "\n".join(lines).rstrip() + "\n"


def _parts(part: type[Part], path: str) -> Iterator[tuple[str, type[Part]]]:
    yield path, part
    for field in fields_of(part):
        if field.part:
            yield from _parts(field.part, f"{path}.{field.name}" if path else field.name)


def _paragraphs(part: type[Part]) -> list[str]:
    """The part's own words; a blank line between two paragraphs stays one."""
    return "\n\n".join(" ".join(text.split()) for text in (part.__doc__ or "").split("\n\n")).split("\n")


def _table(part: type[Part], path: str) -> list[str]:
    rows = [
        f"| {_name(field, path)} | {_kind(field)} | {_default(field)} | {field.description} | {_example(field)} |"
        for field in fields_of(part)
    ]
    return ["| field | type | default | meaning | example |", "|---|---|---|---|---|", *rows]


def _name(field: FieldView, path: str) -> str:
    if not field.part:
        return f"`{field.name}`"
    anchor = f"{path}{field.name}".replace(".", "").lower()
    return f"[`{field.name}`](#{anchor})"


def _kind(field: FieldView) -> str:
    choices = ", ".join(f"`{choice}`" for choice in field.choices)
    return f"list of {choices}" if choices and field.list_words else choices or field.kind


def _default(field: FieldView) -> str:
    if field.required:
        return "**required**"
    if field.part or field.default in (None, [], {}, ""):
        return ""
    return f"`{field.default:g}`" if isinstance(field.default, float) else f"`{_yaml(field.default)}`"


def _example(field: FieldView) -> str:
    return "" if field.part else f"`{field.name}: {_yaml(field.example)}`"


def _yaml(value: Any) -> str:
    """One line, as it could stand in a document."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = True
    yaml.width = 10_000
    out = io.StringIO()
    yaml.dump(value, out)
    return out.getvalue().removesuffix("...\n").rstrip()


def main(folder: str) -> None:
    for page, root in PAGES.items():
        (Path(folder) / page).write_text(render(root), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
