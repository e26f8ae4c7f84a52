"""The server's side: one request in, one envelope out, whatever happens. Nothing of a driver is imported here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.cpi.contract import Cpi, CpiError, InvalidCall, Json, Mark, NotImplementedHere
from coterie.cpi.wire.envelope import failure, success
from coterie.cpi.wire.faults import trail, wire_error
from coterie.cpi.wire.request import Request, env_of, read_request, without_network_names
from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import loads, readable
from coterie.errors import CoterieError
from coterie.redact import Redactor

MAX_MESSAGE = 4096
OpenCpi = Callable[[Json], Cpi]  # from the context: it may carry properties that override the configured ones
NewMark = Callable[[str, list[Any], Json], Mark]  # method, arguments, context
Cleanup = Callable[[Cpi, str, Mapping[str, list[str]] | None, Json], Json]  # cpi, director uuid, known CIDs, options


def answer(request_bytes: bytes, open_cpi: OpenCpi, new_mark: NewMark, cleanup: Cleanup | None = None) -> bytes:
    """Never raises, but for a keyboard interrupt; the answer is always one valid envelope."""
    document: Any = None
    try:
        document = _decode(request_bytes)
        request = read_request(document)
        return _perform(request, open_cpi, new_mark, cleanup)
    except (Exception, SystemExit) as error:
        return _refuse(error, document)


def _decode(request_bytes: bytes) -> Any:
    try:
        return loads(request_bytes)
    except Mismatch as mismatch:
        raise InvalidCall(f"the request {mismatch}", remedy="send one JSON object and then end of file") from None


def _perform(request: Request, open_cpi: OpenCpi, new_mark: NewMark, cleanup: Cleanup | None) -> bytes:
    method = request.method
    cpi = open_cpi(request.context)
    try:
        result = _call(cpi, request, new_mark, cleanup)
    except CpiError as error:
        if method.gone is None or not isinstance(error, method.gone):
            raise
        return success(None)
    try:
        return success(method.answers(request.version).write(result))
    except Mismatch as mismatch:
        raise CpiError(
            f"{method.name} was done, but its result {mismatch}",
            remedy="it is a defect of the driver, please report it; find what it made by its mark",
        ) from None


def _call(cpi: Cpi, request: Request, new_mark: NewMark, cleanup: Cleanup | None) -> Any:
    method = request.method
    if not method.of_cpi:
        if cleanup is None:
            raise NotImplementedHere(f"{method.name} is not offered here", remedy="run it through coterie-cpi")
        return cleanup(cpi, *request.arguments)
    call = getattr(cpi, method.name)
    if method.marks is None:
        return call(*request.arguments)
    mark = request.mark or new_mark(method.name, list(request.sent), request.context)
    return call(*request.arguments, mark=mark)


def _refuse(error: BaseException, document: Any) -> bytes:
    log = "" if isinstance(error, CoterieError) else f"{type(error).__name__} at {trail(error)}\n"
    redactor = Redactor(without_network_names(document), secret=[env_of(document)])
    raw = wire_error(error, _name(document))
    told = redactor.hide_all(raw)
    # These are names of the contract: a password that is spelt like one of them must not blank them out.
    told["type"], told["coterie"]["code"] = raw["type"], raw["coterie"]["code"]
    # Cut only now: half a secret would not be recognised.
    told["message"] = readable(told["message"][:MAX_MESSAGE])
    try:
        return failure(told, log)
    except Mismatch:
        # Our own facts are not JSON; what BOSH needs is.
        del told["coterie"]
        return failure(told, log)


def _name(document: Any) -> str:
    name = document.get("method") if isinstance(document, dict) else None
    return name[:64] if isinstance(name, str) and name else "the request"
