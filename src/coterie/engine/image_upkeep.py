"""A thread of every service that keeps the folder of images small; a Director puts old ones into the database, too."""

from __future__ import annotations

import logging
import threading

from coterie.engine.images import Images
from coterie.ledger.errors import is_outage
from coterie.ledger.rows import images as rows
from coterie.ledger.store import Ledger

log = logging.getLogger(__name__)
_EVERY_S = 3600.0


class ImageUpkeep:
    """`publishes`: a Director on PostgreSQL, the only kind of service that may write images there."""

    def __init__(self, ledger: Ledger, images: Images, *, publishes: bool = False) -> None:
        self._ledger = ledger
        self._images = images
        self._publishes = publishes and ledger.dialect == "postgresql"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="image_upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(5)

    def tend_once(self) -> None:
        if self._publishes:
            self._images.publish_missing()
            with self._ledger.write_silently() as tx:
                rows.forget_abandoned(tx)
        self._images.clean()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self.tend_once()
            except Exception as error:
                log.error("could not tend the images of stemcells", exc_info=not is_outage(error))
            self._over.wait(_EVERY_S)
