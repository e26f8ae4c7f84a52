"""What is sealed can be read with the same secret only."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import CpiError
from coterie.cpi.kit.sealing import seal, unseal


def test_a_body_is_sealed_for_those_with_the_same_credentials() -> None:
    text = seal("one", {"user_data": "the agent's password"})
    assert "password" not in text
    assert unseal("one", text) == {"user_data": "the agent's password"}
    with pytest.raises(CpiError) as caught:
        unseal("two", text)
    assert caught.value.retryable
