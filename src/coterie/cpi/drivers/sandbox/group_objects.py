"""Server groups as objects: one per CID, whatever the cloud holds behind it."""

from __future__ import annotations

from coterie.cpi.contract import CloudObject, Mark, SurveyPage
from coterie.cpi.drivers.sandbox.cloud import every
from coterie.cpi.drivers.sandbox.desks import view
from coterie.cpi.drivers.sandbox.groups import Groups
from coterie.cpi.drivers.sandbox.marking import GROUP, of_director
from coterie.sandbox.labels import list_labels
from coterie.sandbox.records import Record
from coterie.sandbox.server_groups import ServerGroup, list_members, list_server_groups

# On clouds that reserve, labels are listed first and then the groups whose label is gone.
_STRAYS = "strays:"


class GroupObjects(Groups):
    def find_group(self, mark: Mark) -> CloudObject | None:
        holder = self.holder(mark.group_cid)
        if holder is None and self.settings.single_writer:
            holder = next(iter(self.zone_groups(mark.group_cid)), None)
        found = self._group_object(holder) if holder else None
        return found if found and found.mark == mark else None

    def group_object(self, cid: str) -> CloudObject | None:
        holder = self.holder(cid)
        return self._group_object(holder) if holder else None

    def survey_groups(self, director_uuid: str, cursor: str | None) -> SurveyPage:
        if cursor and cursor.startswith(_STRAYS):
            return self._survey_strays(director_uuid, cursor.removeprefix(_STRAYS))
        listing = list_labels if self.settings.single_writer else list_server_groups
        page = listing(self.account, of_director(director_uuid), cursor)
        last = _STRAYS if self.settings.single_writer else None
        objects = tuple(self._group_object(holder) for holder in page.items)
        return SurveyPage(objects, page.next or last, complete=True, calls=1 + len(objects))

    def _survey_strays(self, director_uuid: str, cursor: str) -> SurveyPage:
        only = of_director(director_uuid)
        known = {label.tags.get(GROUP) for label in every(self.account, list_labels, only)}
        page = list_server_groups(self.account, only, cursor or None)
        strays = tuple(self._group_object(group) for group in page.items if group.tags.get(GROUP) not in known)
        return SurveyPage(strays, f"{_STRAYS}{page.next}" if page.next else None, complete=True, calls=2 + len(strays))

    def _group_object(self, holder: Record) -> CloudObject:
        cid = holder.tags.get(GROUP, holder.id)
        groups = [holder] if isinstance(holder, ServerGroup) else self.zone_groups(cid)
        members = tuple(vm for group in groups if group.members for vm in self._some_members(group))
        state = "live" if groups else "reserved"
        return view("server_group", holder, cid, in_use_by=members, state=state)

    def _some_members(self, group: ServerGroup) -> list[str]:
        members, _ = list_members(self.account, group.id)
        return [member.vm for member in members]
