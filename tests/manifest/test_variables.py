"""Variables in a manifest's text: where they may stand, what becomes of them, and which are missing."""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML

from coterie.errors import InvalidDocument
from coterie.manifest.variables import resolve_variables

VALUES = {"pw": 'p"w: #\n\u2028x', "n": 7, "map": {"a": [1, "b"]}, "map.a": [1, "b"], "word": "w"}


def _find(name: str) -> Any:
    return VALUES[name]


def _resolve(text: str) -> Any:
    resolved = resolve_variables(text, "m.yml", _find)
    assert resolved.count("\n") == text.count("\n"), "lines keep their numbers"
    return YAML(typ="safe", pure=True).load(resolved)


def test_values_are_put_in_with_their_type() -> None:
    found = _resolve("""\
name: web
instance_groups:
- name: a
  env:
    one: ((pw))  # a comment
    two: "x-((word))-((n))-y"
    three: [((n)), '((map))', ((map.a))]
    four: &anchored ((word))
    five: *anchored
  user_data: |
    #!/bin/sh
    echo ((word)) $((1 + 2)) $((i)) (( spaced ))
  instances: 1
""")
    group = found["instance_groups"][0]
    assert group["env"] == {
        "one": VALUES["pw"],
        "two": "x-w-7-y",
        "three": [7, {"a": [1, "b"]}, [1, "b"]],
        "four": "w",
        "five": "w",
    }
    assert group["user_data"] == "#!/bin/sh\necho w $((1 + 2)) $((i)) (( spaced ))\n"
    assert group["instances"] == 1


def test_all_that_are_missing_or_misplaced_are_named_with_their_lines() -> None:
    text = (
        "name: ((word))\ninstance_groups:\n- name: a\n  env:\n    x: ((gone))\n    y: [a, 'b ((lost.key)) ((gone))']\n"
    )
    with pytest.raises(InvalidDocument) as caught:
        resolve_variables(text, "m.yml", _find)
    found = [(one["line"], one["field"], one["what"]) for one in caught.value.details["mistakes"]]
    assert found == [
        (1, "name", "a variable may not stand here"),
        (5, "instance_groups[0].env.x", "the variable ((gone)) has no value"),
        (6, "instance_groups[0].env.y[1]", "the variable ((gone)) has no value"),
        (6, "instance_groups[0].env.y[1]", "the variable ((lost.key)) has no value"),
    ]


def test_a_text_without_variables_or_that_is_no_yaml_stays_as_it_is() -> None:
    for text in ("a: 1\n", "a: [((word))\n\tb"):
        assert resolve_variables(text, "m.yml", _find) == text
