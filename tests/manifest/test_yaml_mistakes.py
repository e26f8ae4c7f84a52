"""Texts that are no YAML, or YAML that no document may be: place, words and remedy."""

from __future__ import annotations

import pytest

from coterie.manifest.tree import MAX_BYTES, MAX_DEPTH
from tests.manifest.documents import CONFIG, DEPLOYMENT, edited, line_of, mistakes_of_both, mistakes_of_deployment

NESTED = "env: " + "{a: " * MAX_DEPTH + "1" + "}" * MAX_DEPTH
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)

SYNTAX = [
    ("name: kafka\nstemcells:\n\t- alias: a\n", 3, 1, "a tab is used for indentation", "spaces"),
    ("name: a: b\n", 1, 8, "mapping values are not allowed here", "quote a text"),
    ("name: [a, b\n", 2, 1, "stream end", "close the quote or bracket"),
    ('name: "a\n', 2, 1, "end of stream", "close the quote or bracket"),
    ("name: @a\n", 1, 7, "cannot start any token", "put the text in quotes"),
    ("name: !a!b\n", 1, 7, "the tag of this value is not understood", "put the text in quotes"),
    ("name: a\n  b: c\n", 2, 4, "mapping values are not allowed here", "indentation"),
    ("name: kafka\x07\n", 1, 12, "a character is not allowed in YAML", "remove it"),
    ("name: a\n---\nname: b\n", 2, 1, "a second document begins here", "one document per file"),
    ("", 1, 1, "the document is empty", "write the fields"),
    ("# nothing\n", 1, 1, "the document is empty", "write the fields"),
    ("x" * (MAX_BYTES + 1), 1, 1, "more than the limit of 4,194,304", "split it"),
    ("ü" * (MAX_BYTES // 2 + 1), 1, 1, "more than the limit of 4,194,304", "split it"),
]


@pytest.mark.parametrize(("text", "line", "column", "what", "remedy"), SYNTAX)
def test_text_that_is_not_yaml(text: str, line: int, column: int, what: str, remedy: str) -> None:
    (mistake,) = mistakes_of_deployment(text)
    assert (mistake["line"], mistake["column"]) == (line, column)
    assert what in mistake["what"]
    assert remedy in mistake["remedy"]


TREE = [
    ("name: kafka", "name: kafka\nname: other", "name: other", "name", "given twice, first in line 1", "keep one"),
    ("name: kafka", f"name: kafka\n{NESTED}", "env: ", "env" + ".a" * 31, "more than 32 levels deep", "flatten"),
    ("name: kafka", "name: kafka\ntags: &t {a: *t}", "tags: ", "tags.a", "inside the value", "write the value out"),
    ("name: kafka", "name: *nothing", "name: ", "name", "no anchor has the name of this", "define it above"),
    ("name: kafka", "name: kafka\n7: x", "7: x", "['7']", "the key '7' is not text", 'write "7"'),
    ("name: kafka", "name: kafka\n{a: b}: x", "{a: b}", "", "used as a key", "plain text"),
    ("name: kafka", "name: kafka\ntags: &a [1]\n*a : x", "*a : x", "", "alias of something that is not text", "write"),
    ("name: kafka", "name: !ruby/object kafka", "name: ", "name", "the tag of this value is not", "in quotes"),
    ("name: kafka", "name: kafka\ntags: !!set {a: b}", "tags: ", "tags", "is not understood", "remove the tag"),
    ("instances: 3", "instances: .inf", "instances: .inf", "instance_groups[controller].instances", "infinity",
     "quotes"),
    ("instances: 3", f"instances: {10**30}", "000", "instance_groups[controller].instances", "too large", "quotes"),
    ("instances: 3", f"instances: 1{'0' * 5000}", "000", "instance_groups[controller].instances", "too large",
     "quotes"),
    ("instances: 3", "instances: 1e999", "1e999", "instance_groups[controller].instances", "too large", "quotes"),
    ("name: kafka", 'name: "a\\0"', "name: ", "name", "a zero byte", "remove the escape"),
    ("name: kafka", 'name: "\\uD800"', "name: ", "name", "half of a character", "remove the escape"),
    ("instances: 3", "instances: !!int x", "!!int", "instance_groups[controller].instances", "does not fit", "remove"),
    ("name: kafka", 'name: kafka\n"a\\0": 1', "1", "['a�']", "a zero byte", "remove the escape"),
    ("name: kafka", "name: kafka\n<<: 5", "<<: 5", "['<<']", "not a mapping", "alias of a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "field", "what", "remedy"), TREE)
def test_yaml_that_no_document_may_be(old: str, new: str, at: str, field: str, what: str, remedy: str) -> None:
    text = edited(DEPLOYMENT, (old, new))
    first = next(m for m in mistakes_of_deployment(text) if what in m["what"])
    assert (first["line"], first["field"]) == (line_of(text, at), field)
    assert remedy in first["remedy"]


def test_a_number_that_cannot_be_read_is_one_mistake_not_two() -> None:
    assert len(mistakes_of_deployment(edited(DEPLOYMENT, ("instances: 3", "instances: .nan")))) == 1


def test_aliases_that_multiply_are_stopped_before_they_are_expanded() -> None:
    (mistake,) = mistakes_of_deployment(BOMB)
    assert "more than 1,000,000 values" in mistake["what"]
    assert mistake["field"].startswith("f[")
    assert "fewer aliases" in mistake["remedy"]


def test_aliases_cannot_dig_deeper_than_the_limit() -> None:
    half = "{a: " * 20 + "1" + "}" * 20
    (mistake,) = mistakes_of_deployment(f"x: &x {half}\ny: {'{a: ' * 20}*x{'}' * 20}\n")
    assert "more than 32 levels deep" in mistake["what"]
    assert mistake["line"] == 2


def test_aliases_and_merge_keys_work_and_keep_their_places() -> None:
    merged = edited(
        DEPLOYMENT,
        ("  vm_type: small\n  stemcell: default\n", "  <<: &same {vm_type: smal, stemcell: default}\n"),
        ("  vm_type: large\n  stemcell: default\n", "  <<: *same\n"),
    )
    found = mistakes_of_both(merged, CONFIG)
    assert [m["field"] for m in found] == ["instance_groups[broker].vm_type", "instance_groups[controller].vm_type"]
    assert {m["line"] for m in found} == {line_of(merged, "smal,")}


def test_what_a_mapping_says_itself_wins_over_what_it_merges() -> None:
    text = edited(DEPLOYMENT, ("  vm_type: large\n", "  <<: {vm_type: nonsense}\n  vm_type: large\n"))
    assert mistakes_of_both(text, CONFIG) == []


def test_words_that_yaml_readers_disagree_about_stay_text() -> None:
    text = edited(DEPLOYMENT, ("name: kafka", "name: kafka\ntags: {a: yes, b: 0644, c: 2024-01-01, d: 1_000}"))
    assert mistakes_of_deployment(text) == []


def test_an_empty_value_is_reported_where_its_key_is() -> None:
    text = edited(DEPLOYMENT, ("instances: 3", "instances:"))
    (mistake,) = mistakes_of_deployment(text)
    assert mistake["line"] == line_of(text, "instances:\n")
    assert mistake["what"] == "it is empty, but must be a whole number"


def test_a_syntax_error_shows_nothing_of_the_text_around_it() -> None:
    text = edited(CONFIG, ("driver: sandbox", "driver: sandbox\n  properties: {password: hunter2, x: ]}"))
    assert "hunter2" not in str(mistakes_of_both(DEPLOYMENT, text))
