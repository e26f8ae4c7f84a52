"""The two languages of filters, which do not mix: comparisons as in AIP-160, and `eq`/`ne` with regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from coterie.sandbox.fronts.gcp.refusals import invalid

_CLAUSE = re.compile(r'\(?\s*(?P<field>[\w.-]+)\s*(?P<op>!=|=|:|\beq\b|\bne\b)\s*(?P<value>"[^"]*"|[^\s()]+)\s*\)?')
_REGULAR = ("eq", "ne")
Row = Mapping[str, Any]


def read_filter(text: str, known: Mapping[str, Any]) -> Callable[[Row], bool]:
    """`known`: the fields of the kind; one that it does not have is refused."""
    clauses, at = [], 0
    rest = text.strip()
    while at < len(rest):
        match = _CLAUSE.match(rest, at)
        if not match:
            raise invalid(f"Invalid value for field 'filter': '{text}'. Invalid list filter expression.")
        field, op, value = match["field"], match["op"], match["value"].strip('"')
        if field.split(".")[0] not in known:
            raise invalid(f"Invalid value for field 'filter': '{text}'. Unknown field {field}.")
        clauses.append((field.split("."), op, value))
        at = match.end()
        at += len(re.match(r"\s*(AND\s+)?", rest[at:])[0])  # type: ignore[index] # it matches nothing, too
    if len({op in _REGULAR for _, op, _ in clauses}) > 1:
        raise invalid(f"Invalid value for field 'filter': '{text}'. Filter languages cannot be mixed.")
    return lambda row: all(_holds(row, *clause) for clause in clauses)


def _holds(row: Row, path: list[str], op: str, value: str) -> bool:
    found: Any = row
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    if op == ":":
        return found is not None if value == "*" else value.lower() in str(found).lower()
    if op in _REGULAR:
        return (found is not None and re.fullmatch(value, str(found)) is not None) == (op == "eq")
    if isinstance(found, bool):
        return (value == str(found).lower()) == (op == "=")
    return (found is not None and str(found) == value) == (op == "=")
