"""Idempotency-Key: a repeated request gets the reply of the first one instead of running again."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Header, Request
from fastapi.responses import Response

from coterie.director.access import caller
from coterie.director.context import AppContext
from coterie.director.http.reply import SafeJson
from coterie.errors import Conflict, UsageError
from coterie.ledger.errors import DatabaseError, KeyTaken, reason
from coterie.ledger.rows import replies
from coterie.ledger.store import Tx

log = logging.getLogger(__name__)
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=255, pattern=r"^[!-~]+$")]
_WITH_CREDENTIALS = ("/v1/cloud-config", "/v1/clouds")
_KEEP_S = 24 * 3600.0
# A reservation is renewed while its request is being worked on. That of a process that died is taken over after this;
# repeated work is refused or changes nothing.
_BUSY_S = 10.0
_RENEW_S = 2.0


def run_once(
    context: AppContext, request: Request, key: str | None, body: Any, work: Callable[[], tuple[int, dict[str, Any]]]
) -> Response:
    """Run `work` (it returns a status and a JSON body), or repeat the reply that is stored under this key."""
    if key is None:
        return _response(*work())
    earlier = _reserve(context, key, _fingerprint(request, key, body))
    if earlier is not None:
        return _response(earlier.status, earlier.body, replayed=True)
    try:
        with _renew_reservation(context, key):
            status, answer = work()
    except BaseException:
        # Errors are not stored: the caller may remove the cause and repeat with the same key.
        with context.ledger.write_silently() as tx:
            replies.release(tx, key)
        raise
    with context.ledger.write_silently() as tx:
        replies.record(tx, key, status, answer)
    return _response(status, answer)


@contextmanager
def _renew_reservation(context: AppContext, key: str) -> Iterator[None]:
    over = threading.Event()

    def renew() -> None:
        while not over.wait(_RENEW_S):
            try:
                with context.ledger.write_silently() as tx:
                    replies.renew(tx, key)
            except DatabaseError as error:
                log.warning("the reservation of an Idempotency-Key is not renewed: %s", reason(error))

    renewing = threading.Thread(target=renew, name="renew-key", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()


def reserve_key(tx: Tx, request: Request, key: str | None, body: Any) -> None:
    """For an answer that must not be given twice: inside the transaction of the work, so that neither is without the
    other. Raises what was answered before as a conflict."""
    if key is None:
        return
    try:
        earlier = _reserve_in(tx, key, _fingerprint(request, key, body))
    except KeyTaken as error:  # another Director on this database was faster
        raise _busy() from error
    if earlier is not None:
        raise Conflict(**earlier.body)


def store_reply(tx: Tx, key: str | None, status: int, **conflict: str) -> None:
    """Store the reply for repetitions of this request."""
    if key is not None:
        replies.record(tx, key, status, conflict)


def _fingerprint(request: Request, key: str, body: Any) -> str:
    # The caller counts: a key that another caller used must not reveal that caller's reply.
    known = [caller.current().identity, request.method, request.url.path, request.url.query, body]
    text = json.dumps(known, sort_keys=True, default=str)
    if isinstance(body, dict) and (body.get("cloud_config") or request.url.path in _WITH_CREDENTIALS):
        # The body holds credentials, and the ledger keeps the hash: guessing them from it must be expensive.
        return hashlib.scrypt(text.encode(), salt=key.encode(), n=2**14, r=8, p=1, dklen=32).hex()
    return hashlib.sha256(text.encode()).hexdigest()


def _reserve(context: AppContext, key: str, request: str) -> replies.Reply | None:
    try:
        with context.ledger.write_silently() as tx:
            return _reserve_in(tx, key, request)
    except KeyTaken as error:  # another Director on this database was faster
        raise _busy() from error


def _reserve_in(tx: Tx, key: str, request: str) -> replies.Reply | None:
    replies.forget_old(tx, _KEEP_S, _BUSY_S)
    earlier = replies.get(tx, key)
    if earlier is None:
        replies.reserve(tx, key, request)
        return None
    if earlier.request != request:
        raise UsageError(
            "this Idempotency-Key belongs to another request", remedy="use a fresh key for every new request"
        )
    if earlier.status == 0:
        raise _busy()
    return earlier


def _busy() -> Conflict:
    return Conflict(
        "the same request is being worked on right now",
        remedy="wait a second and repeat it",
        retryable=True,
        details={"same_request": True},
    )


def _response(status: int, body: dict[str, Any], *, replayed: bool = False) -> Response:
    headers = {"Idempotency-Replayed": "true"} if replayed else {}
    if "task_id" in body:
        headers["Location"] = f"/v1/tasks/{body['task_id']}"
    return Response(status_code=status, headers=headers) if status == 204 else SafeJson(body, status, headers=headers)
