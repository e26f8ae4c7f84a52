"""Errors on the wire: every contract error ↔ the name that a BOSH Director knows, plus our own facts beside it.

BOSH ignores extra keys of an error; with `coterie` there, our own callers get back the very class that was raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.cpi.contract import (
    CpiError,
    DiskNotAttached,
    DiskNotFound,
    InvalidCall,
    NoDiskSpace,
    NotImplementedHere,
    StemcellNotFound,
    VMCreationFailed,
)
from coterie.errors import CoterieError

# The classes that BOSH calls retriable; on any other one the flag of a foreign program means nothing.
_RETRIABLE = (VMCreationFailed, NoDiskSpace, DiskNotAttached, DiskNotFound)
_UNKNOWN_METHOD = ("Method is not known, got", "Invalid Method:")


def wire_error(error: BaseException, method: str) -> dict[str, Any]:
    """The `error` of a response. Secrets are still in it: redact before it leaves."""
    known = error if isinstance(error, CoterieError) else _unforeseen(error, method)
    return {
        "type": getattr(known, "wire_type", CpiError.wire_type),
        "message": sentence(known),
        "ok_to_retry": bool(known.retryable),
        "coterie": {key: value for key, value in known.facts().items() if key != "retryable"},
    }


def sentence(error: CoterieError) -> str:
    """`what: why. remedy`, as one reads it in a BOSH task."""
    said = f"{error.what}: {error.why}" if error.why else error.what
    return f"{said.rstrip('.')}. {error.remedy}" if error.remedy else said


def trail(error: BaseException) -> str:
    """Where an unforeseen error arose: files, lines and functions, no values."""
    places = []
    here = error.__traceback__
    while here:
        code = here.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{here.tb_lineno} {code.co_name}")
        here = here.tb_next
    return " < ".join(reversed(places[-8:]))


def contract_error(error: Mapping[str, Any]) -> CpiError:
    """The contract error behind the `error` of a response, whose shape has been checked."""
    ours = error.get("coterie")
    if isinstance(ours, Mapping) and isinstance(ours.get("code"), str):
        return _own(ours, error)
    kind = class_of(error["type"], error["message"])
    retryable = error["ok_to_retry"] if issubclass(kind, _RETRIABLE) else None
    return kind(
        error["message"] or f"the CPI program answered {error['type']}", why=_why(kind, error), retryable=retryable
    )


def class_of(wire_type: str, message: str) -> type[CpiError]:
    """As a BOSH Director reads the type; what it does not know is only a CpiError."""
    if wire_type in ("InvalidCall", CpiError.wire_type) and message.startswith(_UNKNOWN_METHOD):
        return NotImplementedHere
    return _BY_TYPE.get(wire_type, CpiError)


def all_errors(root: type[CpiError] = CpiError) -> Iterator[type[CpiError]]:
    """Every error class of the contract, narrow ones after the wider. A driver's own goes out as the one it narrows."""
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == CpiError.__module__:
            yield from all_errors(kind)


def _unforeseen(error: BaseException, method: str) -> CpiError:
    return CpiError(
        f"{method} failed in a way that the driver did not foresee",
        why=f"{type(error).__name__}: {_text(error)}",
        remedy="look in the log for the place; it is a defect of the driver, please report it",
    )


def _text(error: BaseException) -> str:
    try:
        said = str(error).strip()
    except Exception:  # an exception that cannot even be printed must not cost the caller its answer
        said = ""
    return said or f"no text, raised at {trail(error) or 'an unknown place'}"


def _own(ours: Mapping[str, Any], error: Mapping[str, Any]) -> CpiError:
    kind = _BY_CODE.get(ours["code"], CpiError)
    texts = {name: str(ours.get(name) or "") for name in ("why", "remedy")}
    details = ours.get("details")
    return kind(
        str(ours.get("what") or error["message"]),
        retryable=error["ok_to_retry"],
        details=details if isinstance(details, Mapping) else None,
        **texts,
    )


def _why(kind: type[CpiError], error: Mapping[str, Any]) -> str:
    return f"the program called it {error['type'][:128]!r}" if kind is CpiError else ""


_BY_CODE = {kind.code: kind for kind in all_errors()}
_BY_TYPE = {kind.wire_type: kind for kind in reversed([*all_errors()]) if kind is not InvalidCall}
_BY_TYPE["InvalidCall"] = InvalidCall
_BY_TYPE["Bosh::Clouds::StemcellNotFound"] = StemcellNotFound  # as foreign programs call it
