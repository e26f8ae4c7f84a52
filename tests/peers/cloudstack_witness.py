"""Watches a served CloudStack: every request that it accepts and every answer is held against the vendor's definition,
by code that shares nothing with the emulator but the definition itself."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from coterie.sandbox.fronts.cloudstack.faults import Reply
from coterie.sandbox.fronts.cloudstack.server import Server

UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
ENTRY = re.compile(r"^([A-Za-z0-9]+)\[\d+\]\.?(.*)$")
ERROR = {"uuidList", "errorcode", "cserrorcode", "errortext"}
TEXTS = {
    "integer": lambda text: text.lstrip("-").isdecimal(),
    "long": lambda text: text.lstrip("-").isdecimal(),
    "boolean": lambda text: text.lower() in ("true", "false"),
    "uuid": lambda text: text == "-1" or UUID.match(text) is not None,
}


class Witness:
    """`seen`: how often each command was accepted. `mistakes`: what the definition does not allow."""

    def __init__(self, server: Server) -> None:
        self.seen: Counter[str] = Counter()
        self.mistakes: list[str] = []
        self._ask = server.front.ask
        server.front.ask = self.ask  # type: ignore[method-assign] # the witness stands in the door

    def ask(self, raw: Mapping[str, str], *, origin: str, post: bool) -> Reply:
        reply = self._ask(raw, origin=origin, post=post)
        if reply.body and reply.status in (None, 200):
            command = _commands()[{name.lower(): value for name, value in raw.items()}["command"].lower()]
            self.seen[command["name"]] += 1
            found = [*_request(command, raw), *_answer(command, reply.body)]
            self.mistakes += [f"{command['name']}: {one}" for one in found]
        return reply


def _request(command: Any, raw: Mapping[str, str]) -> Iterator[str]:
    given = set()
    for name, value in raw.items():
        entry = ENTRY.match(name)
        key = (entry[1] if entry else name).lower()
        parameter = command["params"].get(key)
        given.add(key)
        if parameter is None and key not in _document()["implicit_params"]:
            yield f"there is no parameter {key}"
        if parameter and (entry is not None) != (parameter["type"] == "map"):
            yield f"{key} is a {parameter['type']}"
        elif parameter and not _fits(parameter, value):
            yield f"{key} is no {parameter['type']} of {parameter['length']}: {value[:50]!r}"
    for key, parameter in command["params"].items():
        if parameter["required"] and key not in given:
            yield f"{key} is missing"


def _fits(parameter: Any, value: str) -> bool:
    if parameter["type"] == "map":
        return True
    listed = parameter["type"] == "list"
    look = TEXTS.get(parameter["items"] if listed else parameter["type"], lambda text: True)
    values = [one for one in value.split(",") if one] if listed else [value]
    return all(len(one) <= parameter["length"] and look(one) for one in values)


def _answer(command: Any, body: Mapping[str, Any]) -> Iterator[str]:
    if set(body) != {command["envelope"]}:
        yield f"the envelope is {sorted(body)}"
        return
    inside = body[command["envelope"]]
    if not command["async"]:
        yield from _result(command, inside)
    elif set(inside) != ({"id", "jobid"} if command["async_create"] else {"jobid"}):
        yield f"a job answers {sorted(inside)}"


def _result(command: Any, inside: Mapping[str, Any]) -> Iterator[str]:
    kind, name = command["result"], command["object_name"]
    if kind == "success":
        if set(inside) != {"success"}:
            yield f"success is told as {inside}"
    elif kind == "job":
        yield from _fields(command["response_object"], inside)
        yield from _job(inside)
    elif kind == "list":
        if inside and set(inside) != {"count", name}:
            yield f"a list answers {sorted(inside)}"
        for row in inside.get(name, []):
            yield from _fields(command["response_object"], row)
    elif set(inside) != {name}:
        yield f"an object answers {sorted(inside)}"
    else:
        yield from _fields(command["response_object"], inside[name])


def _job(row: Mapping[str, Any]) -> Iterator[str]:
    """What came of it, in the words of the command that began it."""
    if "jobresult" not in row or set(row["jobresult"]) == ERROR:
        return
    yield from _result(_commands()[row["cmd"].rpartition(".")[2].lower()], row["jobresult"])


def _fields(response: str, row: Mapping[str, Any]) -> Iterator[str]:
    known = _document()["responses"][response]["fields"]
    for name, value in row.items():
        if name not in known:
            yield f"{response} has no field {name}"
        elif known[name].get("object") in _document()["responses"]:
            for one in value if isinstance(value, list) else [value]:
                yield from _fields(known[name]["object"], one)


@cache
def _commands() -> dict[str, Any]:
    return {name.lower(): one for name, one in _document()["commands"].items()}


@cache
def _document() -> Any:
    return json.loads(files("coterie.sandbox.fronts.cloudstack").joinpath("api.json").read_text("utf-8"))
