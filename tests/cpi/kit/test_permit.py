"""What a client may do, and when: the lease is asked for right before each change, when its turn has come."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from coterie.cpi.contract import Runtime
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.permit import Permit, permit_of


def lost() -> None:
    raise TimeoutError("the lease is another's")


def test_a_question_needs_no_lease_and_a_change_does() -> None:
    permit = Permit("d", CallLimit(1), lost)
    with permit.call("read", changes=False):
        pass
    with pytest.raises(TimeoutError), permit.call("write", changes=True):
        pytest.fail("it was sent without a lease")
    assert permit.limit.calls == 2


def test_the_lease_is_asked_for_when_the_turn_has_come() -> None:
    asked: list[str] = []
    permit = Permit("d", CallLimit(1), lambda: asked.append("lease"))

    def change() -> None:
        with permit.call("write", changes=True):
            asked.append("sent")

    with permit.limit:
        waiting = threading.Thread(target=change)
        waiting.start()
        waiting.join(0.1)
        assert asked == []
    waiting.join(10)
    assert asked == ["lease", "sent"]


def test_clients_of_one_cloud_share_their_limit() -> None:
    coordinator: Any = None  # nothing here needs one
    runtime = Runtime("d", coordinator, credential_sources=("environment",))
    first, second = (permit_of("kit", runtime, 3) for _ in range(2))
    assert first.limit is second.limit and first.limit.most == 3
    assert (first.director_uuid, first.credential_sources) == ("d", ("environment",))
