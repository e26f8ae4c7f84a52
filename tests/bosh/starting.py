"""Ways to start many calls at once, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.bosh.nursery import Nursery, Order
from tests.bosh.program import Shop, heard

Start = Callable[[Shop, list[bytes]], list[bytes]]


def by_the_program(shop: Shop, requests: list[bytes]) -> list[bytes]:
    processes = [shop.start(request) for request in requests]
    return [heard(process) for process in processes]


def by_fifty_programs(shop: Shop, requests: list[bytes]) -> list[bytes]:
    """Never more than fifty at a time; the next one starts when one of them ends."""

    shop.launcher()

    def run(request: bytes) -> bytes:
        done = shop.run(request)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with ThreadPoolExecutor(50) as pool:
        return list(pool.map(run, requests))


def by_fork(shop: Shop, requests: list[bytes]) -> list[bytes]:
    """Processes that do the work themselves, born with everything imported; fifty at once."""
    files = [shop.folder / f"answer-{n}" for n in range(len(requests))]
    orders = [
        Order(str(shop.config), request.decode(), str(file)) for request, file in zip(requests, files, strict=True)
    ]
    with Nursery() as nursery:
        for first in range(0, len(orders), 50):
            some = orders[first : first + 50]
            assert nursery.run(*some) == [0] * len(some)
    return [file.read_bytes() for file in files]
