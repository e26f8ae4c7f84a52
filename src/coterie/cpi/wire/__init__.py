"""BOSH's JSON wire, versions 1 to 3, both directions, from one table of methods. Stdlib and contract only: it must be
cheap to import, because a CPI program is started for every call."""

from coterie.cpi.wire.answer import answer
from coterie.cpi.wire.envelope import broken_answer, read_response
from coterie.cpi.wire.method import HIGHEST, Method
from coterie.cpi.wire.request import write_request
from coterie.cpi.wire.table import METHODS

__all__ = ["HIGHEST", "METHODS", "Method", "answer", "broken_answer", "read_response", "write_request"]
