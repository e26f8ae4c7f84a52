"""The project's own files: links lead somewhere, the license is whole, make and the metadata name what exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [page.name for page in ROOT.glob("docs/*.md") if page.name not in index and page.name != "index.md"] == []


def test_the_license_is_the_one_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text
    assert all((ROOT / name).is_file() for name in project["license-files"])


def test_folders_of_make_quick_exist() -> None:
    quick = re.search(r"^QUICK := (.*(?:\\\n.*)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert quick
    folders = quick.group(1).replace("\\", " ").split()
    assert folders and [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_the_newest_changes_are_on_top() -> None:
    sections = re.findall(r"^## \[(.+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == "Unreleased" and len(sections) == len(set(sections))


def test_the_story_of_the_architecture_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    story = text.partition("## One story, hop by hop")[2].partition("\n## ")[0]
    files = set(re.findall(r"`([a-z_/]+\.py)`", story))
    assert 0 < len(files) <= 60
    assert sorted(file for file in files if not (ROOT / "src" / "coterie" / file).exists()) == []
