"""Calls to Compute Engine: one attempt for whatever changes something, repeats for questions, pages, waits for
operations, and the meaning of each refusal. What creates something carries a request id that follows from the mark."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from urllib.parse import quote, urlencode

from coterie.cpi import contract
from coterie.cpi.contract import AuthenticationFailed, CpiError, Mark, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.gcp.login import Login
from coterie.cpi.drivers.gcp.marks import Row, mark_of, name_of
from coterie.cpi.drivers.gcp.properties import NAME, Settings
from coterie.cpi.kit.calls import ClassifiedRefusal, is_passing, rest_after, rewrite
from coterie.cpi.kit.create_once import chosen_ids, create_with_id, remove_half_made
from coterie.cpi.kit.http import Answer, Http, ask_patiently
from coterie.cpi.kit.http_calls import HttpCalls, json_request
from coterie.cpi.kit.marking import require_mark
from coterie.cpi.kit.objects import RowPage
from coterie.cpi.kit.permit import Permit
from coterie.cpi.kit.waits import Waits

_SPACE = uuid.UUID("9e0ad7b4-51b0-4d5e-9f0a-6a6f1f7c5d21")
_SCOPE = re.compile(rf"projects/[^/]+/(?:zones/{NAME.pattern}|regions/{NAME.pattern}|global)")
_RESOURCE = re.compile(rf"{_SCOPE.pattern}/[A-Za-z]+(?:/family)?/{NAME.pattern}")
_ZONAL, _REGIONAL = ("instances", "disks", "nodeGroups"), ("resourcePolicies", "subnetworks")
OF_NETWORK = ("firewalls", "networks", "subnetworks")  # of a shared VPC they are in its host project
_TRIES = 20
_GOING = ("DELETING",)
_PASSING = ("PENDING", "CREATING", "RESTORING", "UPLOADING", "PROVISIONING", "STAGING", *_GOING)
_REACH = "check properties.endpoint, the network and the proxy"
_LOOK = "look for what it may have made before repeating it"
_AGAIN = (Throttled, "repeat later")
_RIGHTS = "give the service account the role of docs/gcp-role.yaml; a new one takes minutes to count everywhere"
# reasons of refusals; operations write the same in another way, like QUOTA_EXCEEDED
_REASONS: Mapping[str, tuple[type[CpiError], str]] = {
    **dict.fromkeys(("rateLimitExceeded", "userRateLimitExceeded", "resourceOperationRateExceeded"), _AGAIN),
    "quotaExceeded": (contract.QuotaExceeded, "delete some, or have Google raise the quota"),
    "noAvailableNode": (contract.NoPlacement, "use another node group, or one with room for this machine type"),
    "ipInUseByAnotherResource": (contract.InvalidCall, "use another address, or delete what has it"),
    "resourceInUseByAnotherResource": (CpiError, "delete what uses it first"),
    "resourceNotReady": (Unavailable, "repeat when it is ready"),
    "conditionNotMet": (contract.Changed, "read it again, and decide on what is there now"),
    "authError": (AuthenticationFailed, "check the credentials and the clock of this machine"),
    "forbidden": (contract.PrivilegeMissing, _RIGHTS),
    "insufficientPermissions": (contract.PrivilegeMissing, "give the machine's account the scope cloud-platform"),
    "accessNotConfigured": (contract.PrivilegeMissing, "enable the API that the message names in the project"),
}
_BY_STATUS: Mapping[int, tuple[type[CpiError], str]] = {
    400: (contract.InvalidCall, "correct what the message names"),
    401: _REASONS["authError"],
    403: _REASONS["forbidden"],
    404: (contract.InvalidCall, "name what exists in this project"),
    412: _REASONS["conditionNotMet"],
    429: _AGAIN,
}


class Refusal(ClassifiedRefusal):
    """Google's refusal by its reason."""

    def __init__(self, what: str, code: str, text: str, status: int, retry_after: float | None = None) -> None:
        self.reason = _reason(code)
        self.http_status = status
        self.kind, remedy = _meaning(self.reason, text, status)
        details = {} if retry_after is None else {"retry_after": retry_after}
        retryable = self.kind.retryable or self.reason == "internalError"
        super().__init__(
            f"Google refused to {what} ({code})", why=text, remedy=remedy, retryable=retryable, details=details
        )

    @property
    def is_missing(self) -> bool:
        return self.reason in ("notFound", "resourceNotFound")

    def says_missing(self, path: str) -> bool:
        """Whether it is this that is missing, not the whole project or an API."""
        return self.reason == "resourceNotFound" or (self.is_missing and f"{path.split('/')[1]}/" in self.why)

    @property
    def is_in_use(self) -> bool:
        return self.reason == "resourceInUseByAnotherResource"

    @property
    def is_taken(self) -> bool:
        return self.http_status == HTTPStatus.CONFLICT or self.reason == "resourceAlreadyExists"


class Failed(Refusal):
    """A change that Google took, and that is known to have failed. What it was to make may be there."""


def _reason(code: str) -> str:
    first, *more = code.split("_")
    return first.lower() + "".join(map(str.title, more)) if code.isupper() else code


def _meaning(reason: str, text: str, status: int) -> tuple[type[CpiError], str]:
    if "resourcepoolexhausted" in reason.lower() or "does not have enough resources" in text:
        return contract.NoPlacement, "use another zone or machine type, or try later"
    if reason in _REASONS:
        return _REASONS[reason]
    if reason.startswith("invalid"):
        return _BY_STATUS[400]
    return _BY_STATUS.get(status, (CpiError, "see the message; repeat once it is mended"))


class Client:
    """Usable from any number of threads. Paths begin with `projects/`."""

    def __init__(self, settings: Settings, permit: Permit) -> None:
        self.settings = settings
        self.permit = permit
        self.director_uuid = permit.director_uuid
        self.waits = Waits(settings.state_timeout, settings.poll_s)
        self.http = Http(settings.http_options())
        self._login = Login(settings, self.http, permit.credential_sources)
        self.calls = HttpCalls(self.http, permit, self._login.token, "Google", _REACH, _is_throttled)

    # -- paths --

    @property
    def project(self) -> str:
        return f"projects/{self.settings.project}"

    @property
    def region(self) -> str:
        return f"{self.project}/regions/{self.settings.region}"

    def path(self, kind: str, cid: str) -> str:
        """What has this CID, which is zone/name for what is in a zone."""
        place, name = "global", cid
        if kind in _ZONAL:
            zone, _, name = cid.partition("/")
            place = f"zones/{zone}"
        elif kind in _REGIONAL:
            place = f"regions/{self.settings.region}"
        return f"{self._project_of(kind)}/{place}/{kind}/{name}"

    def list_path(self, kind: str) -> str:
        """All of a kind, over all zones."""
        is_global = kind not in (*_ZONAL, *_REGIONAL)
        return f"{self._project_of(kind)}/{'global' if is_global else 'aggregated'}/{kind}"

    def _project_of(self, kind: str) -> str:
        return f"projects/{self.settings.network_project}" if kind in OF_NETWORK else self.project

    def url(self, service: str, path: str) -> str:
        base = self.settings.endpoint or f"https://{service}.{self.settings.universe_domain}"
        return f"{base}/{path}"

    # -- questions --

    def get(self, path: str) -> Row | None:
        """None for what is not there, and for what nothing can be called."""
        if not _RESOURCE.fullmatch(path):
            return None
        try:
            return self.ask(f"read {name_of(path)}", path)
        except Refusal as error:
            if error.says_missing(path):
                return None
            raise

    def ask(self, what: str, path: str, verb: str = "GET", body: Row | None = None, /, **query: str) -> Row:
        return self.ask_url(what, self._compute(path, query), verb, body)

    def ask_url(self, what: str, url: str, verb: str = "GET", body: Row | None = None) -> Row:
        return ask_patiently(
            lambda: self._send(what, verb, url, body, changes=False).document(),
            retries=self.settings.retries,
            first_rest_s=self.settings.poll_s / 4,
            rest_after=rest_after,
        )

    def page(self, kind: str, path: str, cursor: str | None = None, **query: str) -> RowPage[Row]:
        """One page of a list, or of a list over all zones; incomplete where some zone did not answer."""
        whole = "/aggregated/" in path
        given = {**query, "maxResults": str(self.settings.page_size), "returnPartialSuccess": "true"}
        given |= {"pageToken": cursor} if cursor else {}
        found = self.ask(f"list {kind}", path, **given)
        scopes: list[Row] = list(found.get("items", {}).values()) if whole else [{kind: found.get("items") or []}]
        rows = [row for scope in scopes for row in scope.get(kind) or ()]
        warnings = [(one.get("warning") or {}).get("code") for one in (*scopes, found)]
        silent = found.get("unreachables") or any(code not in (None, "NO_RESULTS_ON_PAGE") for code in warnings)
        return RowPage(rows, found.get("nextPageToken") or None, not silent)

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
        return self.list_all(kind, self.list_path(kind), **query)

    # -- changes --

    def insert(self, what: str, path: str, body: Row, mark: Mark, remove: Callable[[], object] | None = None) -> Row:
        """The row of `insert_once` for what has its name from the mark alone, so that nothing else has that name."""
        return require_marked(self.insert_once(what, path, body, mark, remove), mark)

    def insert_once(
        self, what: str, path: str, body: Row, mark: Mark | None, remove: Callable[[], object] | None = None
    ) -> Row:
        """Create what has this path, once: the row of what this call, or another under the mark, created. After a
        failure `remove` takes away what is left: what has the path and the mark.

        Google answers a request id with what became of its first request. So one that ended before this call is
        followed by a fresh id, whose end is told as it is. Without a mark: what comes and goes under one name any
        number of times."""
        collection, _, name = path.rpartition("/")
        remove = remove or partial(self._remove_marked, path, mark)
        first = next(chosen_ids(_SPACE, mark, path)) if mark else None
        ids = [first or str(uuid.uuid4()), *(str(uuid.uuid4()) for _ in range(_TRIES - 1))]
        blocked: list[str] = []  # by what, where a name is taken and nothing has it

        def attempt(request_id: str) -> Row | None:
            operation: Row = {}
            refusal: Refusal | None = None
            try:
                given = {"name": name, **body}
                operation = self._change(what, "POST", collection, given, requestId=request_id).document()
                self.wait(what, collection, operation)
            except Refusal as error:
                is_repeat = request_id == first and operation.get("status") == "DONE"
                if not error.is_taken and not is_repeat:
                    raise
                refusal = error
            row = self.read_settled(what, path, _GOING if refusal is None else _PASSING)
            is_failed = row is not None and row.get("status") == "FAILED" and mark_of(row) == mark
            if row is not None and not is_failed:
                return row
            if is_failed and refusal is None and request_id != first:
                raise Failed(what, "FAILED", f"{name} has the state FAILED, and no reason", 0)
            if refusal is not None and refusal.is_taken:  # by a part that an earlier try left, or by a stranger's
                if blocked:
                    raise refusal
                blocked.append(refusal.why)
            remove()
            return None

        try:
            return create_with_id(ids, attempt, f"the request to {what}")
        except Failed as error:
            raise remove_half_made(error, remove) from error

    def change(self, what: str, verb: str, path: str, body: Row | None = None, **query: str) -> None:
        """Do it and wait for its end. Two equal changes are two: no request id may make one of them."""
        answer = self._change(what, verb, path, body, requestId=str(uuid.uuid4()), **query)
        self.wait(what, path, answer.document())

    def delete(self, what: str, path: str) -> None:
        """Gone already is fine, also when another call was faster."""
        try:
            if _RESOURCE.fullmatch(path):
                self.change(what, "DELETE", path)
        except Refusal as error:
            if not error.says_missing(path):
                raise

    def _remove_marked(self, path: str, mark: Mark | None) -> None:
        """What a failed creation left, and nothing that another call made under the name."""
        row = self.get(path) if mark else None
        if row is not None and mark_of(row) == mark:
            self.delete(f"delete {row['name']}", path)

    def set_labels(self, path: str, read: Callable[[], Row], changes: Mapping[str, str]) -> None:
        """Labels are replaced as a whole: another writer's are read again, and kept."""

        def write(row: Row) -> None:
            labels = {**(row.get("labels") or {}), **changes}
            body = {"labels": labels, "labelFingerprint": row.get("labelFingerprint", "")}
            self.change(f"describe {row['name']}", "POST", f"{path}/setLabels", body)

        rewrite(read, write)

    def wait(self, what: str, path: str, operation: Row) -> None:
        """Until the operation has ended; a lost or refused look at it says nothing about the change."""
        scope = _SCOPE.match(path)
        if operation.get("kind") != "compute#operation" or scope is None:
            raise OutcomeUnknown(f"Google's answer to {what} is no operation", remedy=_LOOK)
        name = str(operation["name"])
        url = self._compute(f"{scope[0]}/operations/{name}/wait", {})

        def look() -> Row | None:
            try:
                found = self._send(f"follow how to {what}", "POST", url, None, changes=False).document()
            except CpiError as error:
                if is_passing(error):
                    return None
                why = f"how {name} ended is not told: {error}"
                raise OutcomeUnknown(f"Google was to {what}", why=why, remedy=_LOOK) from error
            return found if found.get("status") == "DONE" else None

        if operation.get("status") != "DONE":
            operation = self.waits.until(f"the request to {what}", look, verb="end", why=f"{name} goes on")
        errors = (operation.get("error") or {}).get("errors")
        if errors:
            text = "; ".join(_error_text(one) for one in errors)
            raise Failed(what, str(errors[0].get("code")), text, int(operation.get("httpErrorStatusCode") or 0))

    def read_settled(self, what: str, path: str, passing: Sequence[str] = _PASSING) -> Row | None:
        """After a request: what has the path, once it is in none of these states; None if it came to nothing."""

        def look() -> tuple[Row | None] | None:
            try:
                row = self.get(path)
            except CpiError as error:
                raise OutcomeUnknown(f"Google took the request to {what}", why=str(error), remedy=_LOOK) from error
            return (row,) if row is None or row.get("status") not in passing else None

        return self.waits.until(f"what another call began to {what}", look, verb="settle")[0]

    # -- one request --

    def _change(self, what: str, verb: str, path: str, body: Row | None, **query: str) -> Answer:
        return self._send(what, verb, self._compute(path, query), body, changes=True)

    def _send(self, what: str, verb: str, url: str, body: Row | None, *, changes: bool) -> Answer:
        raw, headers = json_request(body)
        answer = self.send_raw(what, verb, url, raw, headers, changes=changes)
        if answer.status < HTTPStatus.BAD_REQUEST:
            return answer
        code, text = _read_error(answer)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind = OutcomeUnknown if changes else Unavailable
            raise kind(f"Google failed to {what} ({code})", why=text, remedy=_LOOK if changes else "repeat")
        raise Refusal(what, code, text, answer.status, answer.retry_after)

    def send_raw(
        self, what: str, verb: str, url: str, raw: bytes | None, headers: Mapping[str, str], *, changes: bool = True
    ) -> Answer:
        """The answer whatever its status is; raises where there is none."""
        return self.calls.send(what, verb, url, headers, raw, pace=_class_of(verb, url), changes=changes)

    def _compute(self, path: str, query: Mapping[str, str]) -> str:
        found = self.url("compute", f"compute/v1/{quote(path, safe='/')}")
        return f"{found}?{urlencode(query)}" if query else found


def require_marked(row: Row, mark: Mark) -> Row:
    require_mark(mark_of(row), mark, str(row["name"]))
    return row


def _is_throttled(answer: Answer) -> bool:
    return answer.status in (403, 429) and Refusal("", *_read_error(answer), answer.status).kind is Throttled


def _class_of(verb: str, url: str) -> str:
    """What Google counts together."""
    path = url.partition("?")[0]
    if "/operations/" in path:
        return "operations"
    if verb != "GET":
        return "changes"
    return "lists" if "/aggregated/" in path else "reads"


def _read_error(answer: Answer) -> tuple[str, str]:
    error = answer.document().get("error")
    if not isinstance(error, dict):
        return f"HTTP {answer.status}", "Google gives no reason"
    inner: Row = next(iter(error.get("errors") or ()), {})
    return str(inner.get("reason") or error.get("status") or answer.status), str(error.get("message") or "")


def _error_text(error: Row) -> str:
    quotas = [one["quotaInfo"] for one in error.get("errorDetails") or () if one.get("quotaInfo")]
    told = [f"{one.get('metricName')} has a limit of {one.get('limit')} for {one.get('dimensions')}" for one in quotas]
    return "; ".join(filter(None, [str(error.get("message") or error.get("code")), *told]))
