"""Asks the clouds before planning: the conductors of each site answer, and the answers are stored as dated facts."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CpiError
from coterie.errors import Unreachable
from coterie.ledger.rows import facts
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger

_POLL_S = 0.1  # for answers of conductors in other processes
Question = tuple[CloudRow, str, Any]  # cloud, what, question


def ask(ledger: Ledger, questions: Sequence[Question], timeout_s: float = 60.0) -> list[Any]:
    """Fresh answers, in order, or an error that names the cloud. Writes nothing but facts."""
    keys = [(cloud.name, _key(cloud, what, question)) for cloud, what, question in questions]
    with ledger.write_silently() as tx:
        asked = {
            key: facts.want(tx, cloud, key[1], question)
            for key, (cloud, _, question) in zip(keys, questions, strict=True)
        }
    ledger.notify_question()
    answers: dict[tuple[str, str], Any] = {}
    give_up = time.monotonic() + timeout_s
    while True:
        seen = ledger.written.version
        _collect(ledger, asked, answers)
        if not asked:
            return [answers[key] for key in keys]
        if time.monotonic() > give_up:
            raise _no_answer_error(asked)
        ledger.written.wait(seen, _POLL_S)


def _collect(ledger: Ledger, asked: dict[tuple[str, str], float], answers: dict[tuple[str, str], Any]) -> None:
    with ledger.read() as tx:
        found = {key: facts.find_answer(tx, *key, since) for key, since in asked.items()}
    for key, fact in found.items():
        if fact is None:
            continue
        if fact.error is not None:
            raise _refusal_error(key[0], fact.error)
        answers[key] = fact.data
        del asked[key]


def _key(cloud: CloudRow, what: str, question: Any) -> str:
    """Two plans that ask different things, or of differently configured clouds, must not answer each other."""
    text = json.dumps([question, cloud.driver, cloud.properties], sort_keys=True)
    return f"{what}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _refusal_error(cloud: str, error: Mapping[str, Any]) -> CpiError:
    return CpiError(
        f"cloud {cloud}: {error['what']}", why=error["why"], remedy=error["remedy"], retryable=bool(error["retryable"])
    )


def _no_answer_error(asked: Mapping[tuple[str, str], float]) -> Unreachable:
    names = ", ".join(sorted({cloud for cloud, _ in asked}))
    return Unreachable(
        f"no conductor answered for cloud {names}",
        why="none is alive that serves it, or the cloud is very slow",
        remedy="see `coterie conductors`, and `coterie clouds check`",
    )
