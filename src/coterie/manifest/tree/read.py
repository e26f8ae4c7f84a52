"""Text → tree, or what keeps it from being one. The only place that calls the YAML parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from coterie.manifest.tree.build import Builder, place_of
from coterie.manifest.tree.flaw import Flaw, Unreadable
from coterie.manifest.tree.node import Node

MAX_BYTES = 4 * 1024 * 1024
_START = (1, 1)


@dataclass(frozen=True, slots=True)
class Reading:
    """`root` None: the text could not be read to its end. `partial` then holds what was read before."""

    root: Node | None
    flaws: list[Flaw] = field(default_factory=list)
    partial: Node | None = None


def read(text: str) -> Reading:
    """The tree of the one document in `text`; every flaw in it, as far as the text can be read."""
    builder = Builder()
    try:
        _check_size(text)
        for event in _one_document(text):
            builder.take(event)
        if builder.root is None:
            raise Unreadable(Flaw((), _START, "the document is empty", "write the fields it needs"))
    except Unreadable as unreadable:
        return Reading(None, [*builder.flaws, unreadable.flaw], builder.root)
    except YAMLError as error:
        return Reading(None, [*builder.flaws, _syntax(error, text)], builder.root)
    return Reading(builder.root, builder.flaws, builder.root)


def _check_size(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        what = f"the document has {size:,} bytes, more than the limit of {MAX_BYTES:,}"
        raise Unreadable(Flaw((), _START, what, "split it into several deployments"))


def _one_document(text: str) -> Iterator[events.Event]:
    documents = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        documents += isinstance(event, events.DocumentStartEvent)
        if documents > 1:
            what = "a second document begins here"
            raise Unreadable(Flaw((), place_of(event), what, "keep one document per file, remove the '---'"))
        yield event


def _syntax(error: YAMLError, text: str) -> Flaw:
    """The parser's complaint without the lines it quotes: those may hold a secret."""
    if isinstance(error, ReaderError):
        return _unreadable_character(error, text)
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return Flaw((), _START, "the text is not YAML", "check it with a YAML linter")
    place = (error.problem_mark.line + 1, error.problem_mark.column + 1)
    problem = str(error.problem or error.context or "the text is not YAML")
    if "'\\t'" in problem:
        return Flaw((), place, "a tab is used for indentation", "indent with spaces; YAML allows no tabs there")
    if "tag handle" in problem:  # not named, as with other tags
        return Flaw((), place, "the tag of this value is not understood", "remove the tag, or put the text in quotes")
    return Flaw((), place, f"YAML syntax: {problem}", _syntax_remedy(problem))


def _syntax_remedy(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "quote a text that holds ': ', and check the indentation of this line and the one above"
    if "end of stream" in problem or "stream end" in problem:
        return "close the quote or bracket that was opened before"
    if "cannot start any token" in problem:
        return "put the text in quotes"
    return "check the indentation, quotes and brackets here and in the line above"


def _unreadable_character(error: ReaderError, text: str) -> Flaw:
    before = text[: error.position] if isinstance(error.position, int) else ""
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    return Flaw((), place, "a character is not allowed in YAML", "remove it, or write it as an escape in double quotes")
