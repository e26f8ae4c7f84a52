"""A create whose answer is lost, on a cloud that takes a token with the call: it is repeated until it is answered."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.ledger.rows import objects
from tests.bosh.program import DIRECTOR, CpiFailure, Shop

NOT_TAKEN = [Throttled("later", remedy="wait"), Unavailable("down", remedy="wait")]


def configure(shop: Shop, settle_s: float) -> None:
    cloud = shop.cloud()
    cloud["properties"] |= {"client_tokens": True, "settle_s": settle_s}
    shop.configure(**cloud)


def lose_first(monkeypatch: pytest.MonkeyPatch, error: CpiError, times: int) -> list[str]:
    """The first create is done and its answer lost, then `times` calls are refused with this error."""
    made: list[str] = []
    refused: list[CpiError] = []
    create = SandboxCpi.create_disk

    def call(self: SandboxCpi, *arguments: Any, **more: Any) -> str:
        if not made:
            made.append(create(self, *arguments, **more))
            raise OutcomeUnknown("the answer was lost", remedy="look for it")
        if len(refused) < times:
            refused.append(error)
            raise error
        return create(self, *arguments, **more)

    monkeypatch.setattr(SandboxCpi, "create_disk", call)
    return made


@pytest.mark.parametrize("error", NOT_TAKEN)
def test_a_repeat_that_is_not_taken_is_repeated(shop: Shop, monkeypatch: pytest.MonkeyPatch, error: CpiError) -> None:
    configure(shop, settle_s=60)
    made = lose_first(monkeypatch, error, 1)
    assert [shop.call("create_disk", 1024, {"zone": "z1"}, None)] == made == shop.inventory()["disk"]


@pytest.mark.parametrize("error", NOT_TAKEN)
def test_a_repeat_that_is_never_taken_leaves_the_outcome_unknown(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: CpiError
) -> None:
    configure(shop, settle_s=0.2)
    lose_first(monkeypatch, error, 1000)
    with pytest.raises(CpiFailure, match="the answer was lost"):
        shop.call("create_disk", 1024, {"zone": "z1"}, None)
    with shop.ledger() as ledger, ledger.read() as tx:
        assert [row.state for row in objects.of_caller(tx, "lab", DIRECTOR)] == ["unknown"]
