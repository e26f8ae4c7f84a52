"""Lists: the Director gives them in pages, and the next page is asked for when the one before has been read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from coterie.client.api import Api

if TYPE_CHECKING:
    from coterie.client.resources import Listing

T = TypeVar("T")
_PAGE = 1000


class Pages(Generic[T]):
    """The rows of a list. Nothing is sent before the first of them is taken; each iteration reads anew."""

    def __init__(self, api: Api, path: str, query: Mapping[str, Any], *, paged: bool = True) -> None:
        self._api, self._path, self._query, self._paged = api, path, query, paged

    def __iter__(self) -> Iterator[T]:
        for page in self._pages(None):
            yield from page["items"]

    def listing(self, limit: int | None = None) -> Listing[T]:
        """All pages as one, in the form of a page; or at most `limit` rows."""
        items: list[T] = []
        for page in self._pages(limit):
            items += page["items"]
        return {**page, "items": items}

    def _pages(self, limit: int | None) -> Iterator[Listing[T]]:
        cursor: str | None = None
        read = 0
        while True:
            left = _PAGE if limit is None else min(_PAGE, limit - read)
            bounds = {"limit": left, "cursor": cursor} if self._paged else {}
            page: Listing[T] = self._api.call("GET", self._path, {**self._query, **bounds})
            yield page
            read += len(page["items"])
            cursor = page["next"]
            if cursor is None or (limit is not None and read >= limit):
                return
