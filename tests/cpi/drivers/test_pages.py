"""The page of each driver has every property that its forms read, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coterie.cpi.contract import Place
from coterie.cpi.load import driver_names, forms_of

DOCS = Path(__file__).parents[3] / "docs"
_PROPERTIES, _CLOUD_PROPERTIES = "| property | default | meaning |", "| of | property | meaning |"
_WORDS: dict[str, Place] = {"VM": "vm", "network": "network", "disk": "disk"}


@pytest.mark.parametrize("driver", driver_names())
def test_the_page_has_the_properties_of_the_cloud(driver: str) -> None:
    written = [name for row in _rows(driver, _PROPERTIES) for name in _names(row[0])]
    assert sorted(written) == sorted(forms_of(driver)["cloud"].readers)


@pytest.mark.parametrize("driver", driver_names())
def test_the_page_has_the_cloud_properties_of_vms_networks_and_disks(driver: str) -> None:
    written: dict[Place, list[str]] = {}
    for word, names, *_ in _rows(driver, _CLOUD_PROPERTIES):
        if word in _WORDS:  # stemcells have no form
            written.setdefault(_WORDS[word], []).extend(_names(names))
    forms = {place: sorted(form.readers) for place, form in forms_of(driver).items() if place != "cloud"}
    assert {place: sorted(names) for place, names in written.items()} == forms


def _rows(driver: str, header: str) -> list[list[str]]:
    """The cells of the table under this header, row by row."""
    _, found, rest = (DOCS / f"{driver}.md").read_text().partition(f"{header}\n")
    table = re.match(r"(?:\|.*\n)*", rest)
    assert table and (found or header == _CLOUD_PROPERTIES)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.group().splitlines()[1:]]


def _names(cell: str) -> list[str]:
    return [name.strip() for name in cell.split(",")]
