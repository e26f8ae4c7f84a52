"""Tells others what a cleanup came to: a webhook that gets JSON, a command that gets it on standard input."""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.error
import urllib.request
from typing import Any

from coterie.errors import CoterieError, UsageError

_WEBHOOK_S = 10.0
_COMMAND_S = 60.0


def notify(webhook: str | None, command: str | None, news: dict[str, Any]) -> None:
    """Both are told, even if the first cannot be."""
    body = json.dumps(news).encode()
    problems = []
    for tell, where in ((_post, webhook), (_run, command)):
        try:
            if where:
                tell(where, body)
        except CoterieError as error:
            problems.append(error)
    if problems:
        raise problems[0]


def _post(url: str, body: bytes) -> None:
    if not url.startswith(("http://", "https://")):
        raise UsageError("cleanup_webhook is no http URL", remedy="give http://HOST/PATH or https://HOST/PATH")
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(request, timeout=_WEBHOOK_S):  # noqa: S310 - checked above
            return
    except urllib.error.HTTPError as error:
        raise _failed("webhook", f"it answered {error.code}") from error
    except OSError as error:
        # The URL may hold a secret, and some errors repeat it.
        raise _failed("webhook", type(error).__name__) from error


def _run(command: str, body: bytes) -> None:
    try:
        done = subprocess.run(shlex.split(command), input=body, capture_output=True, timeout=_COMMAND_S, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise _failed("command", type(error).__name__) from error
    if done.returncode:
        raise _failed("command", f"it ended with {done.returncode}")


def _failed(what: str, why: str) -> CoterieError:
    return CoterieError(
        f"the cleanup {what} could not be told",
        why=why,
        remedy=f"check the setting cleanup_{what}; it is tried again a few times",
        retryable=True,
    )
