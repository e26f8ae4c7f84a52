"""Reads properties by narrow paths, many objects in one call. Never a whole object, never one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.link import Link
from coterie.cpi.drivers.vsphere.refusals import Refusal


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
        down = _way("down", sdk.vim.Folder, "childEntity", "down")
        start = sdk.vmodl.query.PropertyCollector.ObjectSpec(obj=folder, skip=True, selectSet=[down])
        return self._rows([start], kind, paths)

    def machines(self, datacenter: Any, folder: Any, *paths: str) -> list[Row]:
        """Every VM of a datacenter: those in its VM folder, and those on its datastores, since a vApp is no folder."""
        query = sdk.vmodl.query.PropertyCollector
        stores = _way("stores", sdk.vim.Datacenter, "datastore", "on-store")
        inside = _way("on-store", sdk.vim.Datastore, "vm")
        starts = [
            query.ObjectSpec(obj=folder, skip=True, selectSet=[_way("down", sdk.vim.Folder, "childEntity", "down")]),
            query.ObjectSpec(obj=datacenter, skip=True, selectSet=[stores, inside]),
        ]
        return self._rows(starts, sdk.vim.VirtualMachine, paths)

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


def _way(name: str, kind: Any, path: str, *onward: str) -> Any:
    """From an object of this kind along a property, and on from there by the ways of these names."""
    query = sdk.vmodl.query.PropertyCollector
    return query.TraversalSpec(
        name=name, type=kind, path=path, skip=False, selectSet=[query.SelectionSpec(name=one) for one in onward]
    )
