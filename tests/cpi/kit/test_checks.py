"""What every driver checks in the same way: before it deletes, and before anything is made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kit.group_cloud import MemoryCloud

from coterie.cpi.contract import Changed, CloudObject, Expected, Mark, Needs, SecurityGroup
from coterie.cpi.kit.check_items import security_group_items
from coterie.cpi.kit.checks import require_same

MARK = Mark("00000000-0000-4000-8000-000000000000", "0" * 26)
THING = CloudObject(kind="disk", cid="d1", name="n", created_at=1.0, etag="e", mark=MARK)


def test_an_expected_object_passes_and_fields_without_expectation_are_not_compared() -> None:
    require_same(THING, Expected(MARK, 1.0, "e"))
    require_same(THING, Expected(MARK, None, None))


@pytest.mark.parametrize("change", [{"mark": None}, {"created_at": 2.0}, {"etag": "f"}])
def test_what_differs_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Changed):
        require_same(replace(THING, **change), Expected(MARK, 1.0, "e"))  # type: ignore[arg-type] # one field each


def test_without_a_mark_nothing_is_proven() -> None:
    with pytest.raises(Changed, match="mark"):
        require_same(replace(THING, mark=None), Expected(None, 1.0, "e"))


def test_a_check_names_the_field_of_a_rule_that_the_cloud_cannot_have() -> None:
    wrong = SecurityGroup("web", ({"protocol": "wrong"},))
    group = {"name": "g", "policy": None, "security_groups": [SecurityGroup("db").wire(), wrong.wire()]}
    require = MemoryCloud().server_groups.require_security_groups
    (item,) = security_group_items(Needs(groups=(group,)), require)
    assert (item.what, item.ok, item.detail) == ("security group web", False, "security_groups: a wrong rule")
