"""One request, done wholly in this process: when no core process runs, or when it died over the request."""

from __future__ import annotations

import json

from coterie.bosh.client import fast_info

_CORE = "/var/vcap/sys/run/coterie_cpi/cpi.sock"


def respond(request: bytes, config: str, sent: bool = False) -> bytes:
    """One envelope, whatever happens. `sent`: a core process may have begun with it before it died."""
    if fast_info.is_info(request):
        answer = fast_info.info(config)
        if answer is not None:
            return answer
    # Interrupts end up in the envelope too: the caller gets exactly one JSON object from every process it started.
    try:
        return _work(request, config, sent)
    except BaseException as error:
        from coterie.bosh.client.fallback_error import envelope

        return envelope(error)


def _work(request: bytes, config: str, sent: bool) -> bytes:
    from coterie.bosh.client.repeats import refuse_repeat
    from coterie.bosh.core.service import Office

    if sent and (refusal := refuse_repeat(request)):
        return refusal
    office = Office(config)
    try:
        return office.answer(request)
    finally:
        office.close()


def core_of(config: str) -> str | None:
    """The socket that this configuration names; None where reading it would cost more than the core saves."""
    try:
        with open(config, encoding="utf-8") as file:  # noqa: PTH123  # pathlib would cost as much as the whole call
            text = file.read()
        if text.lstrip().startswith("{"):
            return str(json.loads(text).get("socket") or _CORE)
    except (OSError, ValueError, AttributeError):
        return None
    for line in text.splitlines():
        if line.startswith("socket:"):
            return line[7:].partition(" #")[0].strip().strip("'\"")
    return _CORE
