"""The third layer of the fence: no call leaves for a cloud that is another account than the one our objects are in."""

from __future__ import annotations

from collections.abc import Callable

from coterie.ledger.rows import pins
from coterie.ledger.store import Ledger


class Pin:
    """Of one opened driver. A refusal is not kept: an operator may mend it."""

    def __init__(self, ledger: Ledger, cloud: str, read_identity: Callable[[], str | None]) -> None:
        self._ledger = ledger
        self._cloud = cloud
        self._read_identity = read_identity
        self._identity: list[str | None] = []  # asked for once
        self._is_pinned = False

    def require(self) -> None:
        """Raises CloudMoved. The first call while objects of ours are in the cloud pins it, if it has no pin yet."""
        if self._is_pinned:
            return
        if not self._identity:
            self._identity.append(self._read_identity())
        identity = self._identity[0]
        with self._ledger.read() as tx:
            moved, pinned = pins.conflict(tx, self._cloud, identity), pins.get(tx, self._cloud)
            holds_objects = pins.holds_objects(tx, self._cloud)
        if moved is not None:
            raise moved
        if identity is not None and pinned != identity and holds_objects:
            with self._ledger.write_silently() as tx:
                pins.pin_first(tx, self._cloud, identity)
        self._is_pinned = identity is None or holds_objects

    def agrees_with(self, pinned: str | None) -> bool:
        """Whether what was checked still holds: an operator may have pinned the cloud to another account since."""
        return not self._is_pinned or self._identity[0] in (None, pinned)
