"""Ways to start many calls at once, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable

from tests.bosh.nursery import Nursery, Order
from tests.bosh.program import Shop, heard

Start = Callable[[Shop, list[bytes]], list[bytes]]


def by_the_program(shop: Shop, requests: list[bytes]) -> list[bytes]:
    processes = [shop.start(request) for request in requests]
    return [heard(process) for process in processes]


def by_fork(shop: Shop, requests: list[bytes]) -> list[bytes]:
    """Processes that do the work themselves, born with everything imported."""
    files = [shop.folder / f"answer-{n}" for n in range(len(requests))]
    orders = [
        Order(str(shop.config), request.decode(), str(file)) for request, file in zip(requests, files, strict=True)
    ]
    with Nursery() as nursery:
        assert nursery.run(*orders) == [0] * len(orders)
    return [file.read_bytes() for file in files]
