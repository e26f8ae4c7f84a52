"""A conductor in a process of its own: it takes what others request, until it gets a SIGTERM or loses its lease."""

from __future__ import annotations

import signal
import threading
from typing import Any

from coterie.ledger.store import Ledger
from tests.kill import interception
from tests.kill.director import conductor
from tests.kill.order import Order
from tests.kill.points import Tracer, die, stop


def run(order: Order) -> dict[str, Any]:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    tracer = Tracer(order.trace, order.target)
    tracer.act = {"kill": die, "stop": stop}[order.action]
    interception.install(tracer)
    worker = conductor(Ledger.open(order.url), order)
    worker.start()
    over.wait()
    worker.drain()
    return {"left": []}
