"""Calls to Compute Engine: one attempt for whatever changes something, repeats for questions, pages, waits for
operations, and the meaning of each refusal. What creates something carries a request id that follows from the mark."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from urllib.parse import quote, urlencode

from coterie.cpi import contract
from coterie.cpi.contract import AuthenticationFailed, CpiError, Mark, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.gcp.login import Login
from coterie.cpi.drivers.gcp.marks import Row, mark_of
from coterie.cpi.drivers.gcp.properties import NAME, Settings
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.calls import ClassifiedRefusal
from coterie.cpi.kit.create_once import chosen_ids, create_with_id
from coterie.cpi.kit.http import Answer, AnswerLost, Http, HttpOptions, NotTaken, ask_patiently, call_error
from coterie.slotted import dataclass

_SPACE = uuid.UUID("9e0ad7b4-51b0-4d5e-9f0a-6a6f1f7c5d21")
_SCOPE = re.compile(r"projects/[^/]+/(?:zones/[^/]+|regions/[^/]+|global)")
_TRIES = 20
_GOING = ("DELETING",)
_PASSING = ("PENDING", "CREATING", "RESTORING", "UPLOADING", "PROVISIONING", "STAGING", *_GOING)
_REACH = "check properties.endpoint, the network and the proxy"
_RIGHTS = "give the service account the role of docs/gcp-role.yaml; a new one takes minutes to count everywhere"
_QUOTA = "delete some, or have Google raise the quota"
_ROOM = "use another zone or machine type, or try later"
_LOOK = "look for what it may have made before repeating it"
_AGAIN = "read it again, and decide on what is there now"
_CODES: Mapping[str, tuple[type[CpiError], str]] = {
    **dict.fromkeys(("rateLimitExceeded", "userRateLimitExceeded"), (Throttled, "repeat later")),
    **dict.fromkeys(("RATE_LIMIT_EXCEEDED", "RESOURCE_OPERATION_RATE_EXCEEDED"), (Throttled, "repeat later")),
    **dict.fromkeys(("quotaExceeded", "QUOTA_EXCEEDED"), (contract.QuotaExceeded, _QUOTA)),
    "NO_AVAILABLE_NODE": (contract.NoPlacement, "use another node group, or one with room for this machine type"),
    "IP_IN_USE_BY_ANOTHER_RESOURCE": (contract.InvalidCall, "use another address, or delete what has it"),
    "resourceInUseByAnotherResource": (CpiError, "delete what uses it first"),
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": (CpiError, "delete what uses it first"),
    "resourceNotReady": (Unavailable, "repeat when it is ready"),
    "RESOURCE_NOT_READY": (Unavailable, "repeat when it is ready"),
    "conditionNotMet": (contract.Changed, _AGAIN),
    "CONDITION_NOT_MET": (contract.Changed, _AGAIN),
    "authError": (AuthenticationFailed, "check the credentials and the clock of this machine"),
    "forbidden": (contract.PrivilegeMissing, _RIGHTS),
    "insufficientPermissions": (contract.PrivilegeMissing, "give the machine's account the scope cloud-platform"),
    "accessNotConfigured": (contract.PrivilegeMissing, "enable the API that the message names in the project"),
}
_BY_STATUS: Mapping[int, tuple[type[CpiError], str]] = {
    400: (contract.InvalidCall, "correct what the message names"),
    401: _CODES["authError"],
    403: _CODES["forbidden"],
    404: (contract.InvalidCall, "name what exists in this project"),
    412: _CODES["conditionNotMet"],
    429: _CODES["rateLimitExceeded"],
}


class Refusal(ClassifiedRefusal):
    """Google's refusal by its reason."""

    def __init__(self, what: str, code: str, text: str, status: int, retry_after: float | None = None) -> None:
        self.google_code = code
        self.http_status = status
        self.kind, remedy = _meaning(code, text, status)
        details = {} if retry_after is None else {"retry_after": retry_after}
        retryable = self.kind.retryable or code == "INTERNAL_ERROR"
        super().__init__(
            f"Google refused to {what} ({code})", why=text, remedy=remedy, retryable=retryable, details=details
        )

    def is_one(self, *codes: str) -> bool:
        return self.google_code in codes

    @property
    def is_missing(self) -> bool:
        return self.is_one("notFound", "RESOURCE_NOT_FOUND")

    @property
    def is_in_use(self) -> bool:
        return self.is_one("resourceInUseByAnotherResource", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE")


class Failed(Refusal):
    """A change that Google took, and that is known to have failed. What it was to make may be there."""


def _meaning(code: str, text: str, status: int) -> tuple[type[CpiError], str]:
    if "RESOURCE_POOL_EXHAUSTED" in code or "does not have enough resources" in text:
        return contract.NoPlacement, _ROOM
    if code in _CODES:
        return _CODES[code]
    if code.startswith("INVALID"):
        return _BY_STATUS[400]
    return _BY_STATUS.get(status, (CpiError, "see the message; repeat once it is mended"))


@dataclass(frozen=True, slots=True)
class RowsPage:
    """`complete` False: some zone did not answer, so nothing is proven by what is missing."""

    rows: list[Row]
    next: str | None
    complete: bool


class Client:
    """Usable from any number of threads. Paths begin with `projects/`."""

    def __init__(
        self,
        settings: Settings,
        director_uuid: str,
        limit: CallLimit,
        require_lease: Callable[[], None],
        credential_sources: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.director_uuid = director_uuid
        self.limit = limit
        self.http = Http(
            HttpOptions(settings.connect_timeout, settings.request_timeout, settings.ca_cert, False, settings.proxy_url)
        )
        self._require_lease = require_lease
        self._login = Login(settings, self.http, credential_sources)

    # -- paths --

    @property
    def project(self) -> str:
        return f"projects/{self.settings.project}"

    @property
    def region(self) -> str:
        return f"{self.project}/regions/{self.settings.region}"

    def zonal(self, kind: str, cid: str) -> str | None:
        """The path behind a CID like zone/name; None for what nothing can be called."""
        zone, _, name = cid.partition("/")
        return f"{self.project}/zones/{zone}/{kind}/{name}" if NAME.fullmatch(zone) and NAME.fullmatch(name) else None

    def firewall(self, name: str) -> str:
        return f"projects/{self.settings.network_project}/global/firewalls/{name}"

    def url(self, service: str, path: str) -> str:
        base = self.settings.endpoint or f"https://{service}.{self.settings.universe_domain}"
        return f"{base}/{path}"

    # -- questions --

    def get(self, path: str | None) -> Row | None:
        """None for what is not there."""
        if path is None or not NAME.fullmatch(path.rsplit("/", 1)[-1]):
            return None
        try:
            return self.ask(f"read {path.rsplit('/', 1)[-1]}", path)
        except Refusal as error:
            if error.http_status == HTTPStatus.NOT_FOUND and f"{path.split('/')[1]}/" in error.why:
                return None
            raise  # the project itself, or an API, is not there

    def ask(self, what: str, path: str, **query: str) -> Row:
        return self.ask_url(what, self._compute(path, query))

    def ask_url(self, what: str, url: str, verb: str = "GET", body: Row | None = None) -> Row:
        return ask_patiently(
            lambda: _body(self._send(what, verb, url, body, changes=False)),
            retries=self.settings.retries,
            first_rest_s=self.settings.poll_s / 4,
            rest_after=_rest_after,
        )

    def page(self, kind: str, path: str, cursor: str | None = None, **query: str) -> RowsPage:
        """One page of a list, or of a list over all zones."""
        whole = "/aggregated/" in path
        given = {**query, "maxResults": str(self.settings.page_size), "returnPartialSuccess": "true"}
        given |= {"pageToken": cursor} if cursor else {}
        found = self.ask(f"list {kind}", path, **given)
        scopes: list[Row] = list(found.get("items", {}).values()) if whole else [{kind: found.get("items") or []}]
        rows = [row for scope in scopes for row in scope.get(kind) or ()]
        warnings = [(one.get("warning") or {}).get("code") for one in (*scopes, found)]
        silent = found.get("unreachables") or any(code not in (None, "NO_RESULTS_ON_PAGE") for code in warnings)
        return RowsPage(rows, found.get("nextPageToken") or None, not silent)

    def list_all(self, kind: str, path: str, **query: str) -> Iterator[Row]:
        """All of them; raises where some zone does not answer."""
        cursor: str | None = None
        while True:
            page = self.page(kind, path, cursor, **query)
            if not page.complete:
                raise Unavailable(
                    f"some zones list no {kind} now", why="Google calls them unreachable", remedy="repeat"
                )
            yield from page.rows
            cursor = page.next
            if not cursor:
                return

    def everywhere(self, kind: str, **query: str) -> Iterator[Row]:
        return self.list_all(kind, f"{self.project}/aggregated/{kind}", **query)

    # -- changes --

    def insert(
        self, what: str, collection: str, body: Row, mark: Mark | None, remove: Callable[[], object] | None = None
    ) -> Row:
        """Create what has its name from its mark, once: the row of what this call, or another under the mark, created.
        After a failure `remove` takes away what is left.

        Google answers a request id with what became of its first request. So one that ended before this call is
        followed by a fresh id, whose end is told as it is. Without a mark: what comes and goes under one name any
        number of times."""
        path = f"{collection}/{body['name']}"
        first = next(chosen_ids(_SPACE, mark, path)) if mark else None
        ids = [first or str(uuid.uuid4()), *(str(uuid.uuid4()) for _ in range(_TRIES - 1))]
        blocked: list[str] = []  # by what, where a name is taken and nothing has it

        def attempt(request_id: str) -> Row | None:
            operation: Row = {}
            refusal: Refusal | None = None
            try:
                operation = _body(self._change(what, "POST", collection, body, requestId=request_id))
                self.wait(what, collection, operation)
            except Refusal as error:
                is_repeat = request_id == first and operation.get("status") == "DONE"
                if not _is_taken(error) and not is_repeat:
                    raise
                refusal = error
            row = self._read_settled(what, path, _GOING if refusal is None else _PASSING)
            is_failed = row is not None and row.get("status") == "FAILED" and mark_of(row) == mark
            if row is not None and not is_failed:
                return row
            if is_failed and refusal is None and request_id != first:
                raise Failed(what, "FAILED", f"{body['name']} has the state FAILED, and no reason", 0)
            if refusal is not None and _is_taken(refusal):  # by a part that an earlier try left, or by a stranger's
                if blocked:
                    raise refusal
                blocked.append(refusal.why)
            if remove:
                remove()
            return None

        try:
            return create_with_id(ids, attempt, f"the request to {what}")
        except Failed as error:
            if remove:
                raise remove_half_made(error, remove) from error
            raise

    def change(self, what: str, verb: str, path: str, body: Row | None = None, **query: str) -> None:
        """Do it and wait for its end. Two equal changes are two: no request id may make one of them."""
        answer = self._change(what, verb, path, body, requestId=str(uuid.uuid4()), **query)
        self.wait(what, path, _body(answer))

    def delete(self, what: str, path: str) -> None:
        """Gone already is fine, also when another call was faster."""
        try:
            self.change(what, "DELETE", path)
        except Refusal as error:
            if not error.is_missing:
                raise

    def set_labels(self, path: str, read: Callable[[], Row], changes: Mapping[str, str]) -> None:
        """Labels are replaced as a whole: another writer's are read again, and kept."""

        def write(row: Row) -> None:
            labels = {**(row.get("labels") or {}), **changes}
            body = {"labels": labels, "labelFingerprint": row.get("labelFingerprint", "")}
            self.change(f"describe {row['name']}", "POST", f"{path}/setLabels", body)

        self.rewrite(read, write)

    def rewrite(self, read: Callable[[], Row], write: Callable[[Row], None], tries: int = 5) -> None:
        """Read and write until no other writer was between the two."""
        for attempt in range(tries):
            try:
                write(read())
                return
            except Refusal as error:
                if error.kind is not contract.Changed or attempt == tries - 1:
                    raise

    def wait(self, what: str, path: str, operation: Row) -> None:
        """Until the operation has ended; a lost or refused look at it says nothing about the change."""
        scope = _SCOPE.match(path)
        if operation.get("kind") != "compute#operation" or scope is None:
            raise OutcomeUnknown(f"Google's answer to {what} is no operation", remedy=_LOOK)
        deadline = time.monotonic() + self.settings.state_timeout
        url = self._compute(f"{scope[0]}/operations/{operation['name']}/wait", {})
        while operation.get("status") != "DONE":
            if time.monotonic() >= deadline:
                raise OutcomeUnknown(
                    f"Google did not {what} within {self.settings.state_timeout:.0f} s",
                    why=f"{operation.get('name')} goes on",
                    remedy=_LOOK,
                )
            asked = time.monotonic()
            try:
                operation = _body(self._send(f"follow how to {what}", "POST", url, None, changes=False))
            except CpiError as error:
                if not is_passing(error):
                    raise OutcomeUnknown(
                        f"Google was to {what}, and does not say how it ended", why=str(error), remedy=_LOOK
                    ) from error
            if operation.get("status") != "DONE":
                time.sleep(
                    max(0.0, min(self.settings.poll_s - (time.monotonic() - asked), deadline - time.monotonic()))
                )
        errors = (operation.get("error") or {}).get("errors")
        if errors:
            text = "; ".join(_error_text(one) for one in errors)
            raise Failed(what, str(errors[0].get("code")), text, int(operation.get("httpErrorStatusCode") or 0))

    # -- one request --

    def _read_settled(self, what: str, path: str, passing: Sequence[str]) -> Row | None:
        """What has the name, once it is in none of these states; None if it came to nothing."""
        deadline = time.monotonic() + self.settings.state_timeout
        while True:
            row = self._read_sure(what, path)
            if row is None or row.get("status") not in passing:
                return row
            if time.monotonic() >= deadline:
                why = f"{row.get('name')} is {row.get('status')}"
                raise OutcomeUnknown(f"what another call began to {what} is not settled", why=why, remedy=_LOOK)
            time.sleep(self.settings.poll_s)

    def _read_sure(self, what: str, path: str) -> Row | None:
        try:
            return self.get(path)
        except CpiError as error:
            raise OutcomeUnknown(f"Google took the request to {what}", why=str(error), remedy=_LOOK) from error

    def _change(self, what: str, verb: str, path: str, body: Row | None, **query: str) -> Answer:
        return self._send(what, verb, self._compute(path, query), body, changes=True)

    def send_raw(self, what: str, verb: str, url: str, raw: bytes | None, headers: Mapping[str, str]) -> Answer:
        """For Cloud Storage: the answer whatever its status is; raises where there is none."""
        return self._signed(what, verb, url, raw, headers, changes=True)

    def _send(self, what: str, verb: str, url: str, body: Row | None, *, changes: bool) -> Answer:
        raw = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if raw is not None else {"Content-Length": "0"}
        answer = self._signed(what, verb, url, raw, headers, changes=changes)
        if answer.status < HTTPStatus.BAD_REQUEST:
            return answer
        code, text = _read_error(answer)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind = OutcomeUnknown if changes else Unavailable
            raise kind(f"Google failed to {what} ({code})", why=text, remedy=_LOOK if changes else "repeat")
        raise Refusal(what, code, text, answer.status, answer.retry_after)

    def _signed(
        self, what: str, verb: str, url: str, raw: bytes | None, headers: Mapping[str, str], *, changes: bool
    ) -> Answer:
        token: str | None = None
        for _ in range(2):  # a token may have been ended meanwhile
            token = self._login.token(refused=token)
            signed = {**headers, "Authorization": f"Bearer {token}"}
            answer = self._request(what, verb, url, raw, signed, changes=changes)
            if answer.status != HTTPStatus.UNAUTHORIZED:
                break
        return answer

    def _request(
        self, what: str, verb: str, url: str, raw: bytes | None, headers: Mapping[str, str], *, changes: bool
    ) -> Answer:
        try:
            with self.limit.pace(_class_of(verb, url)) as call:
                if changes:
                    self._require_lease()
                answer = self.http.request(verb, url, headers, raw)
                if answer.status in (403, 429) and _meaning(*_read_error(answer), answer.status)[0] is Throttled:
                    call.slow_down(answer.retry_after)
                return answer
        except (NotTaken, AnswerLost) as error:
            raise call_error(error, what=what, cloud="Google", changes=changes, remedy=_REACH) from None

    def _compute(self, path: str, query: Mapping[str, str]) -> str:
        found = self.url("compute", f"compute/v1/{quote(path, safe='/')}")
        return f"{found}?{urlencode(query)}" if query else found


def require_marked(row: Row, mark: Mark) -> Row:
    """For what has the name of a mark: only that mark itself makes it ours."""
    if mark_of(row) != mark:
        raise contract.NameTaken(
            f"{row['name']} has the name of {mark.name()}, but not its mark", remedy="find out who made it"
        )
    return row


def _is_taken(error: Refusal) -> bool:
    return error.http_status == HTTPStatus.CONFLICT or error.is_one("RESOURCE_ALREADY_EXISTS")


def remove_half_made(error: CpiError, remove: Callable[[], object]) -> CpiError:
    """Answers the error to raise after it."""
    try:
        remove()
    except CpiError as trouble:
        return OutcomeUnknown(
            f"{error.what}, and what it made could not be removed", why=f"{error}; then {trouble}", remedy=_LOOK
        )
    return error


def is_passing(error: Exception) -> bool:
    """Whether it is trouble of the moment, and says nothing of what was asked for."""
    return (error.kind if isinstance(error, Refusal) else type(error)) in (Throttled, Unavailable)


def _class_of(verb: str, url: str) -> str:
    """What Google counts together."""
    path = url.partition("?")[0]
    if "/operations/" in path:
        return "operations"
    if verb != "GET":
        return "changes"
    return "lists" if "/aggregated/" in path else "reads"


def _body(answer: Answer) -> Row:
    try:
        found = json.loads(answer.body) if answer.body else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_error(answer: Answer) -> tuple[str, str]:
    error = _body(answer).get("error")
    if not isinstance(error, dict):
        return f"HTTP {answer.status}", "Google gives no reason"
    inner: Row = next(iter(error.get("errors") or ()), {})
    return str(inner.get("reason") or error.get("status") or answer.status), str(error.get("message") or "")


def _error_text(error: Row) -> str:
    quotas = [one["quotaInfo"] for one in error.get("errorDetails") or () if one.get("quotaInfo")]
    told = [f"{one.get('metricName')} has a limit of {one.get('limit')} for {one.get('dimensions')}" for one in quotas]
    return "; ".join(filter(None, [str(error.get("message") or error.get("code")), *told]))


def _rest_after(error: Exception, usual: float) -> float | None:
    if not is_passing(error) or not isinstance(error, CpiError):
        return None
    return max(usual, float(error.details.get("retry_after") or 0.0))
