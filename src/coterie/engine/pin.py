"""The third layer of the fence: no call leaves for a cloud that is another account than the one our objects are in."""

from __future__ import annotations

from collections.abc import Callable

from coterie.ledger.rows import pins
from coterie.ledger.store import Ledger


class Pin:
    """Of one opened driver. The cloud is asked once; a refusal is not kept, since an operator may mend it."""

    def __init__(self, ledger: Ledger, cloud: str, read_identity: Callable[[], str | None]) -> None:
        self._ledger = ledger
        self._cloud = cloud
        self._read_identity = read_identity
        self._agreed: str | None = None
        self._is_checked = False

    def require(self) -> None:
        """Raises CloudMoved. The first look or change pins a cloud that has no pin yet."""
        if self._is_checked:
            return
        identity = self._read_identity()
        with self._ledger.read() as tx:
            moved, pinned = pins.conflict(tx, self._cloud, identity), pins.get(tx, self._cloud)
        if moved is not None:
            raise moved
        if identity is not None and pinned != identity:
            with self._ledger.write_silently() as tx:
                (pins.pin_first if pinned is None else pins.pin)(tx, self._cloud, identity)
        self._agreed, self._is_checked = identity, True

    def agrees_with(self, pinned: str | None) -> bool:
        """Whether what was checked still holds: an operator may have pinned the cloud to another account since."""
        return not self._is_checked or self._agreed is None or self._agreed == pinned
