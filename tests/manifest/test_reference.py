"""The committed reference pages are what the schema says now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.manifest import load_cloud_config, load_deployment
from coterie.manifest.explain import ROOTS, paths
from coterie.manifest.reference import PAGES, main, render
from coterie.manifest.schema import Part
from coterie.manifest.schema.fields import fields_of, sample

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_the_committed_page_is_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == render(PAGES[page]), (
        "run: python -m coterie.manifest.reference docs/"
    )


def test_both_pages_are_written(tmp_path: Path) -> None:
    main(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES)


@pytest.mark.parametrize("root", ROOTS)
def test_every_field_is_on_its_page(root: str) -> None:
    page = render(root)
    assert all(f"`{path.rsplit('.', 1)[-1]}`" in page for path in paths(root))


def parts(part: type[Part]) -> list[type[Part]]:
    return [part, *(inner for field in fields_of(part) if field.part for inner in parts(field.part))]


EVERY_PART = dict.fromkeys(inner for root in ROOTS.values() for inner in parts(root))


@pytest.mark.parametrize("part", EVERY_PART, ids=lambda part: part.__name__)
def test_every_example_is_valid(part: type[Part]) -> None:
    smallest = sample(part)
    part.model_validate(smallest)
    for field in fields_of(part):
        part.model_validate({**smallest, field.name: field.example})


def test_the_smallest_documents_can_be_loaded() -> None:
    load_cloud_config(json.dumps(sample(ROOTS["cloud_config"])), "sample.yml")
    load_deployment(json.dumps(sample(ROOTS["deployment"])), "sample.yml")
