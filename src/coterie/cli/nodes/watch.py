"""`coterie nodes --watch`: the list, again whenever it changes; without a terminal, a line for each change."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from coterie.cli.frame.session import Session
from coterie.times import clock

_LOOK_S = 1.0
_SHOWN = ("state", "az", "host", "vm_cid", "server_group")
_INTERRUPTED, _TIMED_OUT = 130, 9
_CLEAR = "\x1b[2J\x1b[H"
Nodes = list[Mapping[str, Any]]


def watch_nodes(session: Session, read: Callable[[], Nodes], draw: Callable[[Nodes], str]) -> int:
    """Until Ctrl-C, or until --timeout has passed."""
    try:
        if sys.stdout.isatty() and not session.json:
            for found in _changes(session, read):
                sys.stdout.write(_CLEAR)
                sys.stdout.flush()
                session.data(draw(found))
        else:
            _print_changes(session, read)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return _TIMED_OUT


def _changes(session: Session, read: Callable[[], Nodes]) -> Iterator[Nodes]:
    """The list, each time that it has changed."""
    deadline = None if session.timeout is None else time.monotonic() + session.timeout
    before: Nodes | None = None
    while True:
        found = read()
        if found != before:
            yield found
            before = found
        if deadline is not None and time.monotonic() >= deadline:
            return
        time.sleep(_LOOK_S if deadline is None else max(0.0, min(_LOOK_S, deadline - time.monotonic())))


def _print_changes(session: Session, read: Callable[[], Nodes]) -> None:
    before: dict[str, Mapping[str, Any]] = {}
    for found in _changes(session, read):
        now = {node["uuid"]: node for node in found}
        for uuid, node in now.items():
            if uuid not in before or _brief(node) != _brief(before[uuid]):
                session.data(json.dumps(node, ensure_ascii=False) if session.json else _line(node))
        for uuid in before.keys() - now.keys():
            gone = {**before[uuid], "state": "gone"}
            session.data(json.dumps(gone, ensure_ascii=False) if session.json else _line(gone))
        before = now
        sys.stdout.flush()


def _brief(node: Mapping[str, Any]) -> list[Any]:
    return [node[name] for name in _SHOWN]


def _line(node: Mapping[str, Any]) -> str:
    whose = f"{node['deployment']}/" if node["deployment"] else ""
    rest = " ".join(str(node[name]) for name in ("az", "host", "vm_cid") if node[name])
    return f"{clock(datetime.now(UTC).isoformat())}  {whose + node['name']:<24}  {node['state']:<9} {rest}".rstrip()
