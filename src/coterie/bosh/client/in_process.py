"""One request, done wholly in this process: when no core process runs, or when it died over the request."""

from __future__ import annotations

import json

from coterie.bosh.client import fast_info

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module `typing` costs as much as the whole answer of `info`
    from collections.abc import Callable

_CORE = "/var/vcap/sys/run/coterie_cpi/cpi.sock"


def respond(request: bytes, config: str, sent: bool = False, write: Callable[[bytes], object] = bytes) -> bytes:
    """One envelope, whatever happens. `sent`: a core process may have begun with it before it died. `write` hands the
    envelope to the caller, once."""
    if fast_info.is_info(request):
        answer = fast_info.info(config)
        if answer is not None:
            write(answer)
            return answer
    written = []

    def write_once(envelope: bytes) -> None:
        written.append(envelope)
        write(envelope)

    # Interrupts end up in the envelope too: the caller gets exactly one JSON object from every process it started.
    try:
        return _answer(request, config, sent, write_once)
    except BaseException as error:
        if written:
            raise  # the caller has gone away, or has its answer
        envelope = _fallback_envelope(error)
        write(envelope)
        return envelope


def end_process() -> None:
    """End now that the caller has its answer, without the interpreter's clean-up, which would be an eighth of the call.
    What was registered for the end is done; a thread that still works is waited for in the usual way."""
    import threading

    if threading.active_count() > 1:
        return
    import atexit
    import os
    import sys

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def _answer(request: bytes, config: str, sent: bool, write: Callable[[bytes], object]) -> bytes:
    from coterie.bosh.core.service import CpiService, refuse_repeat

    if sent and (refusal := refuse_repeat(request)):
        write(refusal)
        return refusal
    service = CpiService(config)
    try:
        return service.answer(request, write)
    finally:
        service.close()


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


def _fallback_envelope(error: BaseException) -> bytes:
    """For errors that no code foresees: a broken installation, an interrupt. It names the kind of failure only: the
    text may hold secrets."""
    message = (
        f"coterie-cpi could not work ({type(error).__name__}). "
        "Run `coterie-cpi check --config FILE` as the same user, and install the release again if it fails too"
    )
    error_section = {"type": "Bosh::Clouds::CloudError", "message": message, "ok_to_retry": False}
    return json.dumps({"result": None, "error": error_section, "log": ""}).encode()
