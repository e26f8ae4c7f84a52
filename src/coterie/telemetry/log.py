"""Logs of services: one JSON object per line, or words for people on a terminal. Secrets never."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

from coterie.errors import CoterieError
from coterie.redact import KNOWN

_SIZE = 10 * 2**20
_KEEP = 3


def to_file(path: Path) -> None:
    """Old logs are kept beside it, a few, so that a long life fills no disk."""
    handler = RotatingFileHandler(path, maxBytes=_SIZE, backupCount=_KEEP, encoding="utf-8")
    handler.setFormatter(_Lines())
    _install(handler)


def to_terminal(form: str = "auto") -> None:
    """`form`: json, text, or auto (text on a terminal)."""
    handler = logging.StreamHandler(sys.stderr)
    words = sys.stderr.isatty() if form == "auto" else form == "text"
    handler.setFormatter(_Words() if words else _Lines())
    _install(handler)


def run_service(form: str, work: Callable[[], None]) -> int:
    """The exit code of a service. An error that ends it is a line of its log, as everything else is."""
    to_terminal(form)
    try:
        work()
    except CoterieError as error:
        told = "; ".join(filter(None, (error.what, error.why, error.remedy and f"remedy: {error.remedy}")))
        logging.getLogger(__name__).error("ended: %s (%s)", told, error.code)
        return error.exit_code
    except Exception:
        logging.getLogger(__name__).exception("ended unexpectedly")
        return CoterieError.exit_code
    return 0


def _install(handler: logging.Handler) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread
    # Its own words about every connection say nothing that ours do not.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _log_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        name = args.thread.name if args.thread else "?"
        logging.getLogger(__name__).error("thread %s ended", name, exc_info=args.exc_value)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "from": record.name,
            "message": KNOWN.hide(record.getMessage()),
        }
        if record.exc_info:
            line["trace"] = KNOWN.hide(self.formatException(record.exc_info))
        return json.dumps(line)  # ASCII only: no character of a cloud's text reaches a terminal raw


class _Words(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = _escape(KNOWN.hide(record.getMessage()).replace("\n", "\\n"))
        words = f"{time.strftime('%H:%M:%S')} {record.levelname.lower():<7} {message}"
        trace = _escape(KNOWN.hide(self.formatException(record.exc_info))) if record.exc_info else ""
        return f"{words}\n{trace}" if trace else words


def _escape(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\n" else f"\\u{ord(one):04x}" for one in text)
