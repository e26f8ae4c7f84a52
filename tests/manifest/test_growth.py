"""Work grows with the size of a document, not with its square. Counted in function calls, so no clock decides."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import pytest

from coterie.errors import InvalidDocument
from coterie.manifest import load_both, load_deployment
from coterie.manifest.tree import read
from tests.manifest.documents import CONFIG, edited

HEAD = "name: big\nstemcells: [{alias: a, name: b, version: '1'}]\ninstance_groups:\n"
GROUP = "- {{name: g{n}, instances: {i}, azs: [z1], vm_type: {t}, stemcell: a, networks: [{{name: default{s}}}]}}\n"
CONFIG_WITH_ROOM = edited(
    CONFIG, ("10.20.1.0/24", "10.16.0.0/14"), ("10.20.2.0/24", "10.24.0.0/16"), ("10.20.2.1\n", "10.24.0.1\n")
)
ROOMY = edited(
    CONFIG_WITH_ROOM,
    ("gateway: 10.20.1.1", "gateway: 10.16.0.1"),
    ("10.20.1.2 - 10.20.1.9", "10.16.0.2 - 10.16.0.9"),
    ("10.20.1.10 - 10.20.1.19", "10.17.0.0/16"),
    ("[10.20.2.10]", "[10.24.0.10]"),
)


def calls(work: Callable[[], object]) -> int:
    """How many functions, Python's and built-in ones, were called."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def many(count: int, kind: str = "small", static: bool = False) -> str:
    statics = ", static_ips: [10.17.{}.{}]"
    return HEAD + "".join(
        GROUP.format(n=n, i=1, t=kind, s=statics.format(n // 250, n % 250 + 1) if static else "") for n in range(count)
    )


DOCUMENTS = [
    pytest.param(lambda n: many(n), id="groups"),
    pytest.param(lambda n: many(n, static=True), id="static addresses"),
    pytest.param(lambda n: many(n, kind="smal"), id="unknown references"),
    pytest.param(lambda n: many(n).replace("instances", "instnces"), id="unknown keys"),
    pytest.param(lambda n: many(n).replace("z1", "[]"), id="wrong types"),
    pytest.param(lambda n: many(n).replace("name: g", "name: same #").replace("#", "g"), id="bad names"),
    pytest.param(lambda n: HEAD + GROUP.format(n=0, i=1, t="small", s="") * n, id="one name"),
    pytest.param(
        lambda n: many(n, static=True).replace("10.17.0.1]", f"10.17.0.1, {'10.17.9.9, ' * n}]"), id="one address"
    ),
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_twice_the_document_is_twice_the_work(document: Callable[[int], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing is left out, because it outweighs all the rest and would hide how that grows."""
    texts = [document(n) for n in (200, 400)]
    known = {text: read(text) for text in (*texts, ROOMY)}
    monkeypatch.setattr("coterie.manifest.load.read", known.__getitem__)
    load_both_quietly(texts[0])  # what is made once and kept does not count
    small, large = (calls(partial(load_both_quietly, text)) for text in texts)
    assert large < 2.15 * small


@pytest.mark.parametrize(
    "text",
    [
        "- {a: [b, c]}\n",
        "- |\n  text\n",
        "# comment\n",
        "- &a b\n- *a\n",
        "- 'quoted'\n",
        "-\n",
        '- "\\x41"\n',
        "- ? a\n",
    ],
)
def test_parsing_twice_the_text_is_twice_the_work(text: str) -> None:
    small, large = (calls(partial(read, text * n)) for n in (100, 200))
    assert large < 2.15 * small


def load_both_quietly(text: str) -> None:
    with suppress(InvalidDocument):
        load_both((text, "d"), (ROOMY, "c"))


def test_the_documents_are_what_they_are_called() -> None:
    load_both((many(300), "d"), (ROOMY, "c"))
    load_both((many(300, static=True), "d"), (ROOMY, "c"))
    with pytest.raises(InvalidDocument, match="300 mistakes"):
        load_both((many(300, kind="smal"), "d"), (ROOMY, "c"))
    with pytest.raises(InvalidDocument, match="299 mistakes"):
        load_deployment(HEAD + GROUP.format(n=0, i=1, t="small", s="") * 300, "d")


def test_a_list_of_very_many_parts_is_refused_where_it_becomes_too_long() -> None:
    text = "name: big\ninstance_groups:\n" + "- {}\n" * 10_002
    with pytest.raises(InvalidDocument) as refused:
        load_deployment(text, "m.yml")
    (mistake,) = refused.value.details["mistakes"]
    assert (mistake["line"], mistake["field"]) == (10_003, "instance_groups[10000]")
    assert mistake["what"] == "the list has more than 10,000 mappings"
