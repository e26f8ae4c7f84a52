"""The project's own check of words in `src`: functions that act are verbs, no metaphors, no persons for things.

Run by `make lint` as `python -m tests.words`. The words themselves are defined in docs/glossary.md.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "coterie"
TESTS = Path(__file__).parent

# Words that look like participles of the past and are not, or that are adjectives or nouns in a name.
NOT_PARTICIPLES = frozenset({"embed", "exceed", "feed", "need", "proceed", "read", "seed", "set", "speed", "based"})
IRREGULAR = frozenset(
    [
        "begun",
        "bought",
        "bound",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "done",
        "drawn",
        "driven",
        "fallen",
        "found",
        "given",
        "gone",
        "held",
        "hidden",
        "kept",
        "laid",
        "left",
        "lent",
        "lost",
        "made",
        "met",
        "paid",
        "sent",
        "shown",
        "spent",
        "spoken",
        "stolen",
        "stuck",
        "swept",
        "taken",
        "thrown",
        "told",
        "torn",
        "undone",
        "woken",
        "worn",
        "written",
    ]
)

# Metaphors that the project once used for things that have a name in the field.
METAPHORS = frozenset(
    [
        "office",
        "desk",
        "shopfront",
        "heart",
        "errand",
        "errands",
        "bell",
        "book",
        "guard",
        "guards",
        "card",
        "cards",
        "memo",
        "memos",
        "wish",
        "wishes",
        "turn",
        "sight",
        "door",
        "doorman",
        "patrol",
        "housekeeper",
    ]
)

PERSONS = re.compile(r"\b(whoever|whomever|nobody|somebody|anybody|everybody|someone|anyone|everyone)\b", re.IGNORECASE)


class Finding(NamedTuple):
    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def check(text: str, path: Path) -> Iterator[Finding]:
    """Every violation in one module."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if is_participle(node.name) and acts(node):
                yield Finding(path, node.lineno, f"{node.name} acts: name it by a verb in the imperative")
            yield from _metaphors(node.name, node.lineno, path)
        if isinstance(node, ast.ClassDef):
            yield from _metaphors(node.name, node.lineno, path)
    yield from check_persons(text, path)


def check_persons(text: str, path: Path) -> Iterator[Finding]:
    """Persons in comments and docstrings, which tests have to do without, too."""
    for line, prose in _prose(text):
        if found := PERSONS.search(prose):
            yield Finding(path, line, f"{found[0]!r}: things are not persons; say what the code does")


def is_participle(name: str) -> bool:
    """Whether the first word of a function's name is a participle of the past."""
    first = name.strip("_").split("_")[0]
    return first in IRREGULAR or (len(first) > 3 and first.endswith("ed") and first not in NOT_PARTICIPLES)


def acts(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function does something besides computing its answer: writes, calls for an effect, waits, opens."""
    if any(isinstance(one, ast.Name) and one.id == "property" for one in function.decorator_list):
        return False
    return any(_has_effect(node) for statement in function.body for node in ast.walk(statement))


def _has_effect(node: ast.AST) -> bool:
    match node:
        case ast.With() | ast.AsyncWith() | ast.Await() | ast.Delete() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(value=ast.Call()):
            return True
        case ast.Assign(targets=targets):
            return any(isinstance(target, ast.Attribute) for target in targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return isinstance(target, ast.Attribute)
    return False


def _metaphors(name: str, line: int, path: Path) -> Iterator[Finding]:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    if found := METAPHORS.intersection(words):
        yield Finding(path, line, f"{name}: {sorted(found)[0]!r} is a metaphor; use the field's word")


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.start[0], token.string


def main() -> int:
    findings = [
        finding
        for folder, found_in in ((SOURCE, check), (TESTS, check_persons))
        for path in sorted(folder.rglob("*.py"))
        for finding in found_in(path.read_text("utf-8"), path.relative_to(SOURCE.parents[1]))
    ]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
