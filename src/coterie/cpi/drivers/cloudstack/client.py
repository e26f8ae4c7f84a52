"""CloudStack's API: one call, one job, one list; signatures, refusals, and jobs that run once. What commands and fields
mean is known elsewhere."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from coterie.cpi import contract
from coterie.cpi.contract import CpiError, Mark, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.cloudstack.properties import Settings
from coterie.cpi.kit.calls import ClassifiedRefusal
from coterie.cpi.kit.create_once import chosen_ids, start_with_job_id
from coterie.cpi.kit.http import AnswerLost, Http, NotTaken, ask_patiently, call_error
from coterie.cpi.kit.permit import Permit
from coterie.cpi.kit.waits import Waits

Row = dict[str, Any]
PARAMETER, INTERNAL, CAPACITY, IN_USE, CONFLICT = 431, 530, 533, 536, 537
_THROTTLED = 429
_NOT_TAKEN = {401, 429, 432, 531}  # refused before a job could begin
_PASSING = {INTERNAL, 534}  # may well go away by itself
_CORRECT, _WAIT = "correct the value that CloudStack names", "wait, then repeat"
_FREE = "free some, or ask an administrator for a higher limit"
_REFUSALS: dict[int, tuple[type[CpiError], str]] = {
    401: (
        contract.AuthenticationFailed,
        "check properties.api_key and properties.secret_access_key, and this machine's clock",
    ),
    429: (Throttled, _WAIT),
    430: (contract.InvalidCall, _CORRECT),
    431: (contract.InvalidCall, _CORRECT),
    432: (contract.PrivilegeMissing, "use an account that may call it, or a CloudStack that has it"),
    503: (contract.Unavailable, _WAIT),
    531: (contract.PrivilegeMissing, "use an account that may do it, or ask an administrator for the right"),
    532: (contract.QuotaExceeded, _FREE),
    533: (contract.NoPlacement, "free or add hosts and addresses, ask for less, or use a soft policy"),
    534: (CpiError, "wait, then repeat; if it stays so, ask an administrator"),
    535: (contract.QuotaExceeded, _FREE),
    536: (CpiError, "find out what uses it, and end that first"),
    537: (CpiError, "use another address, or end the other rule first"),
}
_UNKNOWN = (CpiError, "repeat; if it happens again, look at CloudStack's log")
_SUCCEEDED, _FAILED = 1, 2  # states of a job
_GOOD_FOR_S = 600.0
_RETRIES = 4  # of a question that was throttled
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_JOB_IDS = uuid.UUID("0f2f0d4e-8f3b-5d0a-b9f8-64f6f1c1a7d3")
_FORM = {"content-type": "application/x-www-form-urlencoded"}


class Refusal(ClassifiedRefusal):
    """CloudStack's refusal by its number."""

    def __init__(self, command: str, errorcode: int, text: str) -> None:
        self.errorcode = errorcode
        self.kind, remedy = _REFUSALS.get(errorcode, _UNKNOWN)
        retryable = errorcode in _PASSING or self.kind.retryable
        super().__init__(f"CloudStack refused {command} ({errorcode})", why=text, remedy=remedy, retryable=retryable)


class Client:
    """Calls of one account for a Director. Usable from any number of threads; opens nothing before the first call."""

    def __init__(self, settings: Settings, permit: Permit) -> None:
        self.settings = settings
        self.permit = permit
        self.director_uuid = permit.director_uuid
        self._http = Http(settings.http_options())
        self._url = settings.endpoint if urlsplit(settings.endpoint).path else f"{settings.endpoint}/client/api"
        self._waits = Waits(
            settings.state_timeout,
            settings.poll_s,
            slowest_poll_s=5.0,
            growth=1.5,
            remedy="raise properties.state_timeout, or look at the job in CloudStack",
        )

    def call(self, command: str, **parameters: Any) -> Row:
        """What is inside the answer's envelope. A question that is throttled is repeated."""
        if not command.startswith(("list", "query")):
            return self.request(command, parameters, changes=True)
        return ask_patiently(
            lambda: self.request(command, parameters, changes=False),
            retries=_RETRIES,
            first_rest_s=self.settings.poll_s,
            rest_after=lambda error, usual: usual if _is_throttled(error) else None,
        )

    def run(self, command: str, limit_s: float | None = None, **parameters: Any) -> Row:
        """A job from its beginning to its end: its result."""
        return self.wait(command, str(self.call(command, **parameters)["jobid"]), limit_s)

    def wait(self, command: str, job: str, limit_s: float | None = None) -> Row:
        """The result of a job, once it has one; a refusal of the job is raised."""
        return self._waits.until(
            command, lambda: self._job_result(command, job), limit_s, why=f"job {job} is still running", verb="end"
        )

    def page(self, command: str, number: int = 1, **parameters: Any) -> tuple[list[Row], int]:
        """One page, numbered from 1, and the length of the whole list."""
        answer = self.call(command, page=number, pagesize=self.settings.page_size, **parameters)
        rows = next((value for value in answer.values() if isinstance(value, list)), [])
        return rows, int(answer.get("count", len(rows)))

    def list_all(self, command: str, **parameters: Any) -> Iterator[Row]:
        """A whole list, page by page: CloudStack cuts a list without pages at 500, silently."""
        number = 1
        while True:
            rows, _ = self.page(command, number, **parameters)
            yield from rows
            if len(rows) < self.settings.page_size:
                return
            number += 1

    def read(self, command: str, cid: str, **parameters: Any) -> Row | None:
        """The one object with this id; None also for an id that CloudStack never gave."""
        if not is_uuid(cid):
            return None
        try:
            rows, _ = self.page(command, id=cid, **parameters)
        except Refusal as error:
            if error.errorcode == PARAMETER:
                return None
            raise
        return rows[0] if rows else None

    def remove(self, command: str, exists: Callable[[], object], **parameters: Any) -> None:
        """Run a job that removes something. A refusal is fine where another call was faster: `exists` finds nothing."""
        try:
            self.run(command, **parameters)
        except Refusal as error:
            if error.errorcode != PARAMETER or exists():
                raise

    # -- jobs that run once: a job's uuid follows from a mark, and CloudStack takes each uuid once --

    def start_once(
        self, mark: Mark, command: str, find: Callable[[str], Row | None], **parameters: Any
    ) -> tuple[Row, bool]:
        """The job that this call began, with its `jobid` and the new object's `id`, and True; or the object that
        another call's job created, and False. `find` looks for that object by its id; where it is gone, the next uuid
        is used."""
        return start_with_job_id(
            chosen_ids(_JOB_IDS, mark, command),
            lambda job: self.call(command, customjobid=job, **parameters),
            lambda job, error: self._follow(command, job, error, find),
            Refusal,
            command,
        )

    def first_job(self, mark: Mark, command: str) -> Row | None:
        """The job that `start_once` begins first under this mark."""
        return self._find_job(next(chosen_ids(_JOB_IDS, mark, command)))

    def tag_once(
        self, mark: Mark, kind: str, cid: str, tags: Mapping[str, str], find_tagged: Callable[[], str | None]
    ) -> str:
        """For objects that no job creates, so that several may be created under one mark: the first that is tagged
        counts. Its id: `cid`, or what `find_tagged` finds where another call was faster."""
        row, is_own = self.start_once(
            mark,
            "createTags",
            lambda _: {"id": found} if (found := find_tagged()) else None,
            resourceids=[cid],
            resourcetype=kind,
            tags=_tag_entries(tags),
        )
        if not is_own:
            return str(row["id"])
        self.wait("createTags", str(row["jobid"]))
        return cid

    # -- tags; `kind` is CloudStack's own word --

    def add_tags(self, kind: str, cid: str, tags: Mapping[str, str]) -> None:
        if _tag_entries(tags):
            self.run("createTags", resourceids=[cid], resourcetype=kind, tags=_tag_entries(tags))

    def set_tags(self, kind: str, row: Row, tags: Mapping[str, str]) -> None:
        """Whatever they were before: the API has no way to change one, so it is deleted first."""
        has = read_tags(row)
        old = [key for key, value in tags.items() if key in has and has[key] != value]
        if old:
            self.delete_tags(kind, str(row["id"]), old)
        self.add_tags(kind, str(row["id"]), {key: value for key, value in tags.items() if has.get(key) != value})

    def delete_tags(self, kind: str, cid: str, keys: Iterable[str]) -> None:
        self.run("deleteTags", resourceids=[cid], resourcetype=kind, tags=[{"key": key} for key in keys])

    def request(self, command: str, parameters: Mapping[str, Any], *, changes: bool) -> Row:
        """One HTTP request. `changes`: whether a lost answer leaves something in doubt."""
        settings = self.settings
        flat = {"command": command, **_flat(parameters)}
        body = sign(flat, settings.api_key, settings.secret_access_key, time.time() + _GOOD_FOR_S)
        try:
            with self.permit.call("any", changes=changes) as call:  # the limit of an account is one for all commands
                answer = self._http.request("POST", self._url, _FORM, body.encode())
                if answer.status == _THROTTLED:
                    call.slow_down(answer.retry_after)
        except (NotTaken, AnswerLost) as error:
            raise self._call_error(error, command, changes) from error
        inside = _inside(answer.body)
        if inside is None:
            raise _no_api(command, answer.status, changes)
        if answer.status != 200 or "errorcode" in inside:
            raise _refusal(command, inside, answer.status)
        return inside

    def _job_result(self, command: str, job: str) -> Row | None:
        """The job goes on whether the question is taken or not, so that alone does not end the wait."""
        try:
            found = self.call("queryAsyncJobResult", jobid=job)
        except Unavailable:
            return None
        except CpiError as error:
            if _is_throttled(error):
                return None
            raise
        if found["jobstatus"] == _FAILED:
            raise _refusal(command, found.get("jobresult") or {}, INTERNAL)
        return (found.get("jobresult") or {}) if found["jobstatus"] == _SUCCEEDED else None

    def _follow(self, command: str, job: str, error: Exception, find: Callable[[str], Row | None]) -> Row | None:
        """Whatever the refusal is: if a job has our uuid, another call began it, or this one did in spite of it."""
        known = None
        if isinstance(error, Refusal) and error.errorcode not in _NOT_TAKEN:
            known = self._find_job(job)
        if known is None:
            raise error
        try:
            self.wait(command, job)
        except Refusal:
            return None
        return find(str(known.get("jobinstanceid") or ""))

    def _find_job(self, job: str) -> Row | None:
        try:
            return self.call("queryAsyncJobResult", jobid=job)
        except Refusal:
            return None

    def _call_error(self, error: Exception, command: str, changes: bool) -> CpiError:
        return call_error(
            error,
            what=command,
            cloud=f"CloudStack at {urlsplit(self._url).netloc.rpartition('@')[2]}",
            changes=changes,
            remedy="check properties.endpoint, the network, the proxy and the TLS certificate",
        )


def read_tags(row: Mapping[str, Any]) -> dict[str, str]:
    return {str(tag["key"]): str(tag.get("value", "")) for tag in row.get("tags") or ()}


def _tag_entries(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As the API takes them; it refuses empty values."""
    return [{"key": key, "value": value} for key, value in tags.items() if value]


def is_uuid(text: str) -> bool:
    return _UUID.match(text) is not None


def sign(parameters: Mapping[str, str], api_key: str, secret: str, good_until: float) -> str:
    """The body of a POST with these parameters, good until that time (signature version 3)."""
    expires = datetime.fromtimestamp(good_until, UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
    full = {**parameters, "apikey": api_key, "response": "json", "signatureversion": "3", "expires": expires}
    return urlencode({**full, "signature": signature(full, secret)})


def signature(parameters: Mapping[str, str], secret: str) -> str:
    text = "&".join(f"{name}={_encode(value)}" for name, value in sorted(parameters.items())).lower()
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()


def _encode(value: str) -> str:
    """As Java's URLEncoder, but a space is %20: only letters, digits and * - . _ stay as they are."""
    return quote(value, safe="*").replace("~", "%7E")


def _flat(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as texts: lists with commas, maps as name[i].key; None is left out."""
    found: dict[str, str] = {}
    for name, value in parameters.items():
        if value is None:
            continue
        if isinstance(value, bool):
            found[name] = "true" if value else "false"
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
            for index, entry in enumerate(value):
                found.update({f"{name}[{index}].{key}": str(one) for key, one in entry.items()})
        elif isinstance(value, (list, tuple)):
            found[name] = ",".join(map(str, value))
        else:
            found[name] = str(value)
    return found


def _inside(raw: bytes) -> Row | None:
    """The content of the envelope, whose name differs between commands."""
    try:
        document = json.loads(raw)
    except ValueError:
        return None
    inside = next(iter(document.values()), None) if isinstance(document, dict) and len(document) == 1 else None
    return inside if isinstance(inside, dict) else None


def _is_throttled(error: Exception) -> bool:
    """By CloudStack, or already by our own pace."""
    return isinstance(error, Throttled) or (isinstance(error, Refusal) and error.errorcode == _THROTTLED)


def _refusal(command: str, body: Mapping[str, Any], status: int) -> Refusal:
    return Refusal(command, int(body.get("errorcode") or status), str(body.get("errortext") or f"HTTP {status}"))


def _no_api(command: str, status: int, changes: bool) -> CpiError:
    """Something that is not CloudStack answered: a proxy, a balancer, a wrong endpoint."""
    what, why = f"{command} got no answer of CloudStack's", f"HTTP {status} without its JSON"
    if status == 503 or not changes:
        return Unavailable(what, why=why, remedy="check properties.endpoint and what stands before CloudStack")
    if status in (502, 504):
        return OutcomeUnknown(what, why=why, remedy="look for what it may have made before repeating it")
    return CpiError(what, why=why, remedy="check properties.endpoint: it ends in /client/api")
