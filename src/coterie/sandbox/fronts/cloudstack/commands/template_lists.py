"""Lists of templates, by the vendor's filters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, records_of, rows_of_accounts
from coterie.sandbox.fronts.cloudstack.refusals import PERMISSION, ApiError, refuse
from coterie.sandbox.fronts.cloudstack.template_rows import public_rows, template_rows
from coterie.sandbox.images import SHAPE
from coterie.sandbox.twist import Tx

_OWN, _OTHERS = ("self", "selfexecutable"), ("featured", "sharedexecutable", "community")
_FILTERS = (*_OWN, *_OTHERS, "executable", "all")


@answers("listTemplates")
def list_templates(call: Call) -> Iterator[Row]:
    wanted = str(call.params["templatefilter"]).lower()
    if wanted not in _FILTERS:
        raise refuse(f"Invalid template filter {wanted}")
    if wanted == "all" and not call.caller.admin:
        raise ApiError(PERMISSION, "Filter all can be specified by admin only")

    def own(tx: Tx) -> Iterator[Row]:
        return (row for one in records_of(tx, SHAPE, call.get("name")) for row in template_rows(tx, one))

    rows = rows_of_accounts(call, own)
    if wanted in _OTHERS:
        rows = (row for row in rows if row["ispublic"])
    if wanted not in _OWN and not call.get("listall"):
        rows = chain(rows, public_rows(call.tx))
    if wanted.endswith("executable"):
        rows = (row for row in rows if row["isready"])
    return filter_rows(call, rows, "id", "name", "zoneid", "isready", "hypervisor")
