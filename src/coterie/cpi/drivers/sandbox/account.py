"""The account of a sandbox cloud, opened on first use, and how its objects are searched by their tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from coterie.cpi.contract import Mark
from coterie.cpi.drivers.sandbox.properties import Settings
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.marking import DIRECTOR, GROUP, INTENT, read_mark_tags
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.errors import Throttled
from coterie.sandbox.pages import Filter, Page
from coterie.sandbox.records import Record

T = TypeVar("T", bound=Record)
Listing = Callable[[Account, Filter, str | None], Page[T]]


class CloudAccount:
    """`limit`: every call to the datacenter takes one of its slots, at the pace of the calls of its name."""

    def __init__(self, settings: Settings, director_uuid: str, limit: CallLimit) -> None:
        self._settings = settings
        self._director = director_uuid
        self._limit = limit
        self._account: Account | None = None

    @property
    def account(self) -> Account:
        if self._account is None:
            settings = self._settings
            self._account = open_account(
                open_datacenter(settings.state, settings.layout),
                settings.account,
                groups=settings.groups,
                soft_lag_ms=settings.soft_lag_ms,
                quotas=settings.quotas,
                slot=self._slot,
            )
        return self._account

    @contextmanager
    def _slot(self, method: str) -> Iterator[None]:
        with self._limit.pace(method) as call:
            try:
                yield
            except Throttled as error:
                call.slow_down(error.details.get("retry_after"))
                raise

    def identity(self) -> str:
        return f"account {self.account.name} of sandbox {self.account.datacenter.uuid()}"

    def owns(self, tags: Mapping[str, str]) -> bool:
        """Whether this Director made the object that has these tags."""
        mark = read_mark_tags(tags)
        return mark is not None and mark.director == self._director

    def every(self, listing: Listing[T], only: Filter) -> Iterator[T]:
        """All items of a list, page by page."""
        after: str | None = None
        while True:
            page = listing(self.account, only, after)
            yield from page.items
            if page.next is None:
                return
            after = page.next


def with_mark(mark: Mark) -> Filter:
    return Filter(tag=(INTENT, mark.intent))


def of_director(director_uuid: str) -> Filter:
    return Filter(tag=(DIRECTOR, director_uuid))


def of_group(cid: str) -> Filter:
    return Filter(tag=(GROUP, cid))
