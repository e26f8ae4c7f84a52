"""Whatever is valid loads as it was written; whatever is not ends in InvalidDocument and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from coterie.errors import InvalidDocument
from coterie.manifest import load_both, load_cloud_config, load_deployment, resolve
from tests.manifest.documents import CONFIG, DEPLOYMENT
from tests.manifest.valid import JSON, Document, pairs

FRAGMENTS = st.sampled_from(
    ["- ", ": ", "\n", "  ", "\t", "[", "]", "{", "}", "&a ", "*a", "'", '"', "#", "|", ">", "!", "%", "?", "<<: ", "~",
     "null", "-1", "10.20.1.0/24", "10.20.1.1 - 10.20.1.300", "::1", "z1", "name: ", "azs: ", "---\n", "\x00", "\ufeff"]
)  # fmt: skip


def block(data: Any, indent: str = "") -> str:
    """YAML in block style, every scalar and key in double quotes."""
    if isinstance(data, dict) and data:
        return "".join(f"\n{indent}{json.dumps(key)}: {block(value, indent + '  ')}" for key, value in data.items())
    if isinstance(data, list) and data:
        return "".join(f"\n{indent}- {block(value, indent + '  ')}" for value in data)
    return json.dumps(data)


def unescaped(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, indent=1)


def honest(error: InvalidDocument) -> None:
    """Each mistake has a place, one line of words, and a remedy; none is the validator's own."""
    found = error.details["mistakes"]
    assert found == sorted(found, key=lambda m: (m["file"], m["line"], m["column"]))
    for mistake in found:
        assert mistake["line"] >= 1
        assert mistake["column"] >= 1
        assert mistake["what"] not in ("", "it is not valid here")
        assert mistake["remedy"]
        assert (mistake["field"] + mistake["what"] + mistake["remedy"]).isprintable()
    assert len(str(error).splitlines()) == len(found) + 1


@settings(max_examples=60, deadline=None)
@given(pairs(), st.sampled_from([json.dumps, unescaped, block]))
def test_valid_documents_load_as_they_were_written(documents: tuple[Document, Document], write: Any) -> None:
    texts = [write(document) for document in documents]
    wanted, offered = load_both((texts[0], "d"), (texts[1], "c"), drivers=["sandbox"])
    for loaded, document in ((wanted, documents[0]), (offered, documents[1])):
        assert loaded.value.model_dump(mode="json", exclude_unset=True) == document
    group_specs = resolve(wanted.value, offered.value)
    assert [spec.name for spec in group_specs] == [group["name"] for group in documents[0]["instance_groups"]]
    assert all(subnets for spec in group_specs for network in spec.networks for subnets in network.by_az.values())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_value_exchanged_anywhere_never_breaks_the_loader(data: st.DataObject) -> None:
    documents = [YAML(typ="safe", pure=True).load(text) for text in (DEPLOYMENT, CONFIG)]
    for _ in range(data.draw(st.integers(1, 4))):
        _exchange(data, data.draw(st.sampled_from(documents)))
    try:
        load_both((json.dumps(documents[0]), "d"), (json.dumps(documents[1]), "c"), drivers=["sandbox"])
    except InvalidDocument as error:
        honest(error)


def _exchange(data: st.DataObject, holder: Any) -> None:
    """Walk to some value and replace, remove or double it."""
    while True:
        key = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else list(range(len(holder)))))
        below = holder[key]
        if not isinstance(below, dict | list) or not below or data.draw(st.integers(0, 4)) == 0:
            break
        holder = below
    action = data.draw(st.sampled_from(["replace", "remove", "double"]))
    if action == "replace":
        holder[key] = data.draw(JSON)
    elif action == "remove" and len(holder) > 1:
        del holder[key]
    elif isinstance(holder, list):
        holder.append(below)
    else:
        holder[data.draw(st.text(max_size=5).filter(_storable))] = below


def _storable(text: str) -> bool:
    return "\0" not in text and not any(0xD800 <= ord(c) < 0xE000 for c in text)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([DEPLOYMENT, CONFIG]), st.data())
def test_text_changed_anywhere_never_breaks_the_loader(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at, cut = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(FRAGMENTS | st.text(max_size=3)) + text[at + cut :]
    for load in (load_deployment, load_cloud_config):
        try:
            load(text, "f")
        except InvalidDocument as error:
            honest(error)


@settings(max_examples=150, deadline=None)
@given(st.lists(FRAGMENTS | st.text(max_size=4), max_size=25).map("".join))
def test_any_text_at_all(text: str) -> None:
    try:
        load_deployment(text, "f")
    except InvalidDocument as error:
        honest(error)
