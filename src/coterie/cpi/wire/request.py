"""Requests: one JSON object with method, arguments, context and api_version; read with suspicion, written plainly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from coterie.cpi.contract import InvalidCall, Json, Mark, NotImplementedHere
from coterie.cpi.wire.method import HIGHEST, Argument, Method
from coterie.cpi.wire.shapes import Mismatch, json_type, read_object
from coterie.cpi.wire.strict import dumps
from coterie.cpi.wire.table import INFO, METHODS
from coterie.cpi.wire.values import read_mark
from coterie.slotted import dataclass

T = TypeVar("T")
_ENV = 5  # its place among the arguments of create_vm
_NETWORKS = {"create_vm": 3, "configure_networks": 1}  # where the argument `networks` stands


@dataclass(frozen=True, slots=True)
class Request:
    method: Method[Any]
    arguments: tuple[Any, ...]  # Python values, in the driver's order
    sent: tuple[Any, ...]  # the same as they came
    context: Json
    version: int
    mark: Mark | None


def read_request(document: Any) -> Request:
    """The request in a decoded JSON document; InvalidCall or NotImplementedHere say what is wrong with it."""
    fields = _part("the request", read_object, document)
    method = _method(fields.get("method"))
    context = _context(fields.get("context"), method)
    version = _version(fields.get("api_version"), method)
    sent = fields.get("arguments")
    arguments = _arguments(method, sent, version)
    return Request(method, arguments, tuple(sent or ()), context, version, _mark(context))


def write_request(
    method: Method[Any],
    arguments: Sequence[Any],
    context: Mapping[str, Any],
    version: int | None,
    mark: Mark | None = None,
) -> bytes:
    """`version` None leaves api_version out, as a BOSH Director does in its first `info`."""
    # An argument that this version does not have is left out: it only refines what the others ask for.
    pairs = zip(method.spoken(version or HIGHEST), arguments, strict=False)
    request: Json = {
        "method": method.name,
        "arguments": [_part(_label(method, one), one.shape.write, value) for one, value in pairs],
        "context": {**context, "coterie": {"mark": mark.wire()}} if mark else dict(context),
    }
    if version is not None:
        request["api_version"] = version
    return _part(f"the request of {method.name}", dumps, request)


def env_of(document: Any) -> Any:
    """The `env` of a create_vm request, which need not be well-formed otherwise; None for any other request."""
    arguments = document.get("arguments") if isinstance(document, dict) else None
    if not isinstance(arguments, list) or document.get("method") != "create_vm":
        return None
    return arguments[_ENV] if len(arguments) > _ENV else None


def without_network_names(document: Any) -> Any:
    """The same request, in which no network's name counts as a key: people call networks `private`."""
    arguments = document.get("arguments") if isinstance(document, dict) else None
    method = document.get("method") if isinstance(document, dict) else None
    if not isinstance(arguments, list) or not isinstance(method, str) or method not in _NETWORKS:
        return document
    place = _NETWORKS[method]
    if len(arguments) <= place or not isinstance(arguments[place], dict):
        return document
    return {**document, "arguments": [*arguments[:place], list(arguments[place].values()), *arguments[place + 1 :]]}


def _method(name: Any) -> Method[Any]:
    if not isinstance(name, str) or not name:
        raise _invalid("`method`", Mismatch(f"must be a non-empty string, not {json_type(name)}"))
    if name not in METHODS:
        raise NotImplementedHere(
            f"Method is not known, got {name[:64]!r}",
            remedy=f"this CPI knows {', '.join(sorted(METHODS))}",
        )
    return METHODS[name]


def _context(value: Any, method: Method[Any]) -> Json:
    context = _part("`context`", read_object, {} if value is None and method is INFO else value)
    uuid = context.get("director_uuid")
    if method is not INFO and (not isinstance(uuid, str) or not uuid):
        raise _invalid("`context.director_uuid`", Mismatch("must be the uuid of the calling Director"))
    return context


def _version(value: Any, method: Method[Any]) -> int:
    version = 1 if value is None else value
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _invalid("`api_version`", Mismatch("must be a whole number, 1 or more"))
    if version > HIGHEST and method is not INFO:
        raise _invalid("`api_version`", Mismatch(f"is above {HIGHEST}, the highest that `info` reports"))
    return min(version, HIGHEST)


def _arguments(method: Method[Any], sent: Any, version: int) -> tuple[Any, ...]:
    if not isinstance(sent, list):
        raise _invalid("`arguments`", Mismatch(f"must be an array, not {json_type(sent)}"))
    fewest, most = method.arity(version)
    if version < method.since:
        raise _invalid(f"`{method.name}`", Mismatch(f"exists from api_version {method.since} on"))
    if not fewest <= len(sent) <= most:
        names = ", ".join(one.name for one in method.spoken(version)) or "none"
        wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        raise _invalid(f"`arguments` of {method.name}", Mismatch(f"must be {wanted} ({names}), not {len(sent)}"))
    padded = [*sent, *[None] * (most - len(sent))]
    pairs = zip(method.spoken(version), padded, strict=True)
    return tuple(_part(_label(method, one), one.shape.read, value) for one, value in pairs)


def _label(method: Method[Any], argument: Argument) -> str:
    return f"argument `{argument.name}` of {method.name}"


def _mark(context: Json) -> Mark | None:
    ours = context.get("coterie")
    if ours is None:
        return None
    mark = _part("`context.coterie`", read_object, ours).get("mark")
    return None if mark is None else _part("`context.coterie.mark`", read_mark, mark)


def _part(name: str, read: Callable[[Any], T], value: Any) -> T:
    try:
        return read(value)
    except Mismatch as mismatch:
        raise _invalid(name, mismatch) from None


def _invalid(name: str, mismatch: Mismatch) -> InvalidCall:
    return InvalidCall(f"{name} {mismatch}", remedy="send the request as the CPI contract describes it")
