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
        return _answer(request, config, sent)
    except BaseException as error:
        return _fallback_envelope(error)


def _answer(request: bytes, config: str, sent: bool) -> bytes:
    from coterie.bosh.core.service import CpiService, refuse_repeat

    if sent and (refusal := refuse_repeat(request)):
        return refusal
    service = CpiService(config)
    try:
        return service.answer(request)
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
