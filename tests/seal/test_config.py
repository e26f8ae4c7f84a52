"""A cloud config is sealed in place: nothing of the properties stays readable, everything else where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.cli.link.sealing import seal_for
from coterie.errors import InvalidDocument, Refused
from coterie.manifest import load_cloud_config
from coterie.seal.config import seal_config
from coterie.seal.key import Key, fresh
from coterie.seal.keys import KeyFile
from coterie.seal.sealed import unseal

SECRET = "hunter2"
BLOCK = f"""\
# our clouds
clouds:
- name: lab
  driver: sandbox
  properties:
    user: me
    password: {SECRET}  # keep out: {SECRET}
    nested:
      key: |
        {SECRET}
  # where it is
  conductor_group: EAST
- {{name: b, driver: sandbox, properties: {{password: {SECRET},
     b: 2}}, conductor_group: west}}
- name: c
  driver: sandbox
  properties: {{password: "{SECRET}"}}   # a note
- name: d
  driver: sandbox
azs:
- name: z1
  cloud: lab
"""
ALIASED = f"""\
clouds:
- {{name: lab, driver: sandbox, properties: &it {{password: {SECRET}}}}}
- {{name: b, driver: sandbox, properties: *it}}
- {{name: c, driver: sandbox, properties: {{<<: *it, more: 1}}}}
azs: [{{name: z1, cloud: lab}}]
"""


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    file = KeyFile(tmp_path_factory.mktemp("keys") / "k")
    return file.add()


def sealed(text: str, key: Key) -> str:
    return seal_config(text, "my.yml", lambda group: key.public, lambda group, key_id: key_id == key.public.id)


def opened(text: str, key: Key) -> dict[str, Any]:
    config = load_cloud_config(text, "my.yml").value
    return {one.name: unseal(key, one.name, one.driver, one.properties) for one in config.clouds}


def plain(text: str) -> dict[str, Any]:
    return {one.name: dict(one.properties) for one in load_cloud_config(text, "my.yml").value.clouds}


def test_in_place_line_by_line(key: Key) -> None:
    done = sealed(BLOCK, key)
    assert SECRET not in done and "user: me" not in done
    assert opened(done, key) == plain(BLOCK)
    before, after = BLOCK.splitlines(), done.splitlines()
    assert [n for n, line in enumerate(before) if line in ("azs:", "- name: z1", "- name: c")] == [
        n for n, line in enumerate(after) if line in ("azs:", "- name: z1", "- name: c")
    ]
    assert after[0] == "# our clouds" and after[16].endswith("# a note")


def test_once_sealed_it_stays_as_it_is(key: Key) -> None:
    done = sealed(BLOCK, key)
    assert sealed(done, key) == done


def test_shared_properties_are_sealed_for_each_cloud(key: Key) -> None:
    done = sealed(ALIASED, key)
    assert SECRET not in done
    assert opened(done, key) == plain(ALIASED)


def test_mistakes_keep_their_lines(key: Key) -> None:
    with pytest.raises(InvalidDocument) as caught:
        sealed(BLOCK.replace("cloud: lab", "cloud: none"), key)
    assert {one["line"] for one in caught.value.details["mistakes"]} == {len(BLOCK.splitlines())}


def test_without_a_key_nothing_is_taken() -> None:
    with pytest.raises(Refused, match="lab cannot be sealed") as refused:
        seal_config(BLOCK, "my.yml", lambda group: None, lambda group, key_id: True)
    assert "east" in refused.value.why and "conductor --group" in refused.value.remedy
    assert SECRET not in str(refused.value.facts())


def test_a_cloud_that_moves_to_a_group_without_its_key_must_be_sealed_anew(key: Key) -> None:
    moved = sealed(BLOCK, key).replace("conductor_group: EAST", "conductor_group: north")
    with pytest.raises(Refused, match="'north' could not open the properties of cloud lab") as refused:
        seal_config(moved, "my.yml", lambda group: key.public, lambda group, key_id: group != "north")
    assert "in plain" in refused.value.remedy
    assert sealed(moved, key) == moved, "a group that has the same key needs nothing"


def test_what_is_sealed_to_an_unknown_key_is_refused(key: Key, tmp_path: Path) -> None:
    other = KeyFile(tmp_path / "other").add()
    with pytest.raises(Refused, match=f"to key {key.public.id}"):
        sealed(sealed(BLOCK, key), other)


NAMES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(st.characters(codec="ascii", min_codepoint=32)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)


@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(first=DOCUMENTS, second=DOCUMENTS, flow=st.booleans())
def test_whatever_the_properties_are(key: Key, first: dict[str, Any], second: dict[str, Any], flow: bool) -> None:
    from io import StringIO

    from ruamel.yaml import YAML

    clouds = [
        {"name": "a", "driver": "sandbox", "properties": {**first, "password": SECRET}},
        {"properties": {**second, "password": SECRET}, "name": "b", "driver": "sandbox"},
    ]
    out = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = flow
    writer.dump({"clouds": clouds, "azs": [{"name": "z", "cloud": "a"}]}, out)
    done = sealed(out.getvalue(), key)
    assert SECRET not in done
    assert opened(done, key) == plain(out.getvalue())
    assert len(done.splitlines()) == len(out.getvalue().splitlines())


def test_a_command_refuses_wrong_properties_before_it_seals_them() -> None:
    """Afterwards nothing can read them but a conductor."""
    text = "clouds:\n- name: lab\n  driver: sandbox\n  properties: {nonsense: 1}\n"
    with pytest.raises(InvalidDocument) as refused:
        seal_for([("", fresh().public.text)], text, "c.yml")
    (mistake,) = [one for one in refused.value.details["mistakes"] if "nonsense" in one["field"]]
    assert (mistake["file"], mistake["line"]) == ("c.yml", 4)
