"""What is there: finding by mark, listing by Director, and deleting only what is still what it was."""

from __future__ import annotations

from dataclasses import replace

from coterie.cpi.contract import (
    CloudObject,
    Expected,
    Kind,
    Mark,
    NotSupported,
    SurveyPage,
)
from coterie.cpi.drivers.sandbox.desks import DESKS, view
from coterie.cpi.drivers.sandbox.group_objects import GroupObjects
from coterie.cpi.drivers.sandbox.marking import of_director, with_mark
from coterie.cpi.drivers.sandbox.refusals import cloud_call
from coterie.cpi.kit.checks import require_kind, require_same
from coterie.sandbox.errors import NoSuch


class Objects(GroupObjects):
    @cloud_call
    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        require_kind(kind)
        if kind == "server_group":
            return self.find_group(mark)
        if kind not in DESKS:
            return None
        page = DESKS[kind].listing(self.account, with_mark(mark))
        found = (view(kind, item, **DESKS[kind].facts(item)) for item in page.items)
        return next((self._used(thing) for thing in found if thing.mark == mark), None)

    @cloud_call
    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        """The datacenter filters by tag itself. Kinds that it does not know have no objects."""
        require_kind(kind)
        if kind == "server_group":
            return self.survey_groups(director_uuid, cursor)
        if kind not in DESKS:
            return SurveyPage((), None, complete=True, calls=0)
        page = DESKS[kind].listing(self.account, of_director(director_uuid), cursor)
        found = (view(kind, item, **DESKS[kind].facts(item)) for item in page.items)
        return SurveyPage(tuple(self._used(thing) for thing in found), page.next, complete=True, calls=1)

    @cloud_call
    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        """The revision goes along, so what changes between our look and our deletion is not deleted either."""
        require_kind(kind)
        if kind == "network":
            raise NotSupported("networks are listed, never deleted as objects", remedy="use delete_network")
        found = self._present(kind, cid)
        if found is None:
            return
        require_same(found, expected)
        if kind == "server_group":
            self.delete_server_group(cid)
            return
        try:
            DESKS[kind].delete(self.account, cid, revision=int(found.etag or 0))
        except NoSuch:
            return

    def _present(self, kind: Kind, cid: str) -> CloudObject | None:
        if kind == "server_group":
            return self.group_object(cid)
        if kind not in DESKS:
            return None
        try:
            item = DESKS[kind].get(self.account, cid)
        except NoSuch:
            return None
        return view(kind, item, **DESKS[kind].facts(item))

    def _used(self, thing: CloudObject) -> CloudObject:
        """A server group that is gone uses nothing any more, even if its tag is still on a security group."""
        if thing.kind != "security_group" or not thing.in_use_by:
            return thing
        living = tuple(user for user in thing.in_use_by if not user.startswith("cg-") or self.holder(user))
        return replace(thing, in_use_by=living)
