"""SQL, tables and columns stay in the ledger: other packages use its named functions and its own error names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import coterie

SOURCE = Path(coterie.__file__).parent
ALLOWED_WRITES = {"Write", "execute", "apply"}


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name), also of imports inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def breaches(module: str, name: str) -> bool:
    if module.partition(".")[0] in ("sqlalchemy", "psycopg"):
        return True
    if module == "coterie.ledger.writes":
        return name not in ALLOWED_WRITES
    return f"{module}.{name}".startswith("coterie.ledger.tables")


def calls_a_raw_write(tree: ast.Module) -> bool:
    """`writes.insert("table", …)` and the like."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        isinstance(call, ast.Attribute)
        and isinstance(call.value, ast.Name)
        and call.value.id == "writes"
        and call.attr not in ALLOWED_WRITES
        for call in calls
    )


def test_no_table_or_column_is_named_outside_the_ledger() -> None:
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        if file.is_relative_to(SOURCE / "ledger"):
            continue
        tree = ast.parse(file.read_text("utf-8"))
        if calls_a_raw_write(tree) or any(breaches(*one) for one in imports(tree)):
            found.append(str(file.relative_to(SOURCE)))
    assert found == []
