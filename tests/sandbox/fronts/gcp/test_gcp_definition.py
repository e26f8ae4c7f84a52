"""The definition that the front holds requests to is a true cut of Google's, and has every method that it simulates."""

from __future__ import annotations

import pytest

from coterie.sandbox.fronts.gcp.compute import Compute
from coterie.sandbox.fronts.gcp.definition import document, find_method
from coterie.sandbox.fronts.gcp.filters import read_filter
from coterie.sandbox.fronts.gcp.refusals import ApiError
from tests.sandbox.fronts.gcp.cut_definition import cut


def test_it_says_what_the_installed_package_says() -> None:
    ours, theirs = document(), cut()
    if ours["revision"] != theirs["revision"]:  # a newer package: what was known must still be there
        assert set(ours["methods"]) <= set(theirs["methods"])
        pytest.skip(f"the package has revision {theirs['revision']}, the cut is of {ours['revision']}")
    assert ours == theirs


def test_what_is_output_only_by_flag_or_by_words_is_marked() -> None:
    schemas = document()["schemas"]
    assert schemas["Instance"]["properties"]["status"]["readOnly"]
    assert schemas["Firewall"]["properties"]["selfLink"]["readOnly"]  # by its words alone
    assert "readOnly" not in schemas["Instance"]["properties"]["labels"]


def test_handlers_are_named_after_methods() -> None:
    actions = [name for name in vars(Compute) if "_" in name and not name.startswith(("_", "any_", "require_"))]
    for name in actions:
        action, _, kind = name.partition("_")
        assert f"{kind}.{action}" in document()["methods"], name


@pytest.mark.parametrize(
    ("verb", "path", "method"),
    [
        ("POST", "projects/p/zones/z/instances", "instances.insert"),
        ("POST", "projects/p/zones/z/instances/i/setLabels", "instances.setLabels"),
        ("GET", "projects/p/aggregated/disks", "disks.aggregatedList"),
        ("POST", "projects/p/global/operations/o/wait", "globalOperations.wait"),
        ("GET", "projects/p", "projects.get"),
    ],
)
def test_paths_lead_to_their_methods(verb: str, path: str, method: str) -> None:
    assert find_method(verb, path)[0].id == method


def test_filters() -> None:
    known = {"name": {}, "labels": {}, "status": {}}
    row = {"name": "cot-a", "labels": {"x": "1"}, "status": "READY"}
    for text, holds in (
        ('labels.x="1"', True),
        ('labels.x="2"', False),
        ('(labels.x="1") (name="cot-a")', True),
        ('labels.x="1" AND status != "READY"', False),
        ("labels.x:*", True),
        ("labels.y:*", False),
        ("name eq cot-.*", True),
        ("name eq cot", False),
        ("name ne cot-.*", False),
    ):
        assert read_filter(text, known)(row) is holds, text
    for wrong in ("name", "nonesuch=1", 'name="a" name eq a', "name >>"):
        with pytest.raises(ApiError):
            read_filter(wrong, known)
