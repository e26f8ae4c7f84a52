"""Reads properties by narrow paths, many objects in one call. Never a whole object, never one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.vsphere import sdk
from coterie.cpi.vsphere.link import Link
from coterie.cpi.vsphere.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Row:
    """One object and those of its properties that are set."""

    ref: Any
    values: dict[str, Any]

    def get(self, path: str, default: Any = None) -> Any:
        return self.values.get(path, default)


class Reader:
    def __init__(self, link: Link) -> None:
        self._link = link
        self.calls = 0

    def one(self, ref: Any, *paths: str) -> Row:
        """Refuses with ManagedObjectNotFound where the object is gone."""
        return self.several([ref], type(ref), paths)[0]

    def several(self, refs: Sequence[Any], kind: Any, paths: Iterable[str]) -> list[Row]:
        if not refs:
            return []
        query = sdk.vmodl.query.PropertyCollector
        return self._rows([query.ObjectSpec(obj=ref) for ref in refs], kind, paths)

    def living(self, refs: Sequence[Any], kind: Any, paths: Sequence[str]) -> list[Row]:
        """Like `several`, without those that are gone: the vCenter names one dead object per refusal."""
        left = list(refs)
        while True:
            try:
                return self.several(left, kind, paths)
            except Refusal as refusal:
                dead = getattr(refusal.fault, "obj", None)
                if not refusal.is_a("ManagedObjectNotFound") or dead not in left:
                    raise
                left = [ref for ref in left if ref != dead]

    def below(self, folder: Any, kind: Any, *paths: str) -> list[Row]:
        """Everything of a kind in a folder and in its folders."""
        query = sdk.vmodl.query.PropertyCollector
        down = query.TraversalSpec(
            name="down",
            type=sdk.vim.Folder,
            path="childEntity",
            skip=False,
            selectSet=[query.SelectionSpec(name="down")],
        )
        return self._rows([query.ObjectSpec(obj=folder, skip=True, selectSet=[down])], kind, paths)

    def children(self, folder: Any, kind: Any, *paths: str) -> list[Row]:
        """What lies directly in a folder."""
        query = sdk.vmodl.query.PropertyCollector
        down = query.TraversalSpec(name="in", type=sdk.vim.Folder, path="childEntity", skip=False)
        return self._rows([query.ObjectSpec(obj=folder, skip=True, selectSet=[down])], kind, paths)

    def _rows(self, objects: list[Any], kind: Any, paths: Iterable[str]) -> list[Row]:
        query, collector = sdk.vmodl.query.PropertyCollector, self._link.content.propertyCollector
        spec = query.FilterSpec(objectSet=objects, propSet=[query.PropertySpec(type=kind, pathSet=list(paths))])
        page = self._link.ask(collector.RetrievePropertiesEx, [spec], query.RetrieveOptions())
        self.calls += 1
        found = []
        while page is not None:
            found += [Row(one.obj, {prop.name: prop.val for prop in one.propSet}) for one in page.objects]
            if not page.token:
                break
            page = self._link.ask(collector.ContinueRetrievePropertiesEx, page.token)
            self.calls += 1
        return found
