"""What all parts of the driver share: the settings, and the account that is opened on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from coterie.cpi.contract import Cpi, Runtime
from coterie.cpi.drivers.sandbox.marking import read_mark
from coterie.cpi.drivers.sandbox.properties import read_settings
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.pages import Filter, Page
from coterie.sandbox.records import Record

T = TypeVar("T", bound=Record)


class SandboxCloud(Cpi):
    """A cloud whose properties are valid; nothing is opened before the first call."""

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self.settings = read_settings(cloud, properties)
        self._account: Account | None = None

    @property
    def account(self) -> Account:
        if self._account is None:
            settings = self.settings
            self._account = open_account(
                open_datacenter(settings.state, settings.layout),
                settings.account,
                groups=settings.groups,
                soft_lag_ms=settings.soft_lag_ms,
                quotas=settings.quotas,
            )
        return self._account

    def ours(self, tags: Mapping[str, str]) -> bool:
        """Whether this Director made the object that has these tags."""
        mark = read_mark(tags)
        return mark is not None and mark.director == self.runtime.director_uuid


def every(account: Account, listing: Callable[[Account, Filter, str | None], Page[T]], only: Filter) -> Iterator[T]:
    """All items of a list, page by page."""
    after: str | None = None
    while True:
        page = listing(account, only, after)
        yield from page.items
        if page.next is None:
            return
        after = page.next
