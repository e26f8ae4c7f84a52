"""Calls to Azure Resource Manager: one attempt for whatever changes something, repeats for questions, pages, operations
that run long, and the meaning of each refusal."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from coterie.cpi import contract
from coterie.cpi.contract import AuthenticationFailed, CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.azure.login import CLOUDS, Login
from coterie.cpi.drivers.azure.properties import Settings
from coterie.cpi.kit.calls import ClassifiedRefusal
from coterie.cpi.kit.http import Answer, AnswerLost, Http, HttpOptions, NotTaken, ask_patiently, call_error
from coterie.cpi.kit.permit import Permit

Row = dict[str, Any]
VM = "Microsoft.Compute/virtualMachines"
SET = "Microsoft.Compute/availabilitySets"
SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"
HOST_GROUP = "Microsoft.Compute/hostGroups"
DISK = "Microsoft.Compute/disks"
SNAPSHOT = "Microsoft.Compute/snapshots"
IMAGE = "Microsoft.Compute/images"
NIC = "Microsoft.Network/networkInterfaces"
NSG = "Microsoft.Network/networkSecurityGroups"
ASG = "Microsoft.Network/applicationSecurityGroups"
IP = "Microsoft.Network/publicIPAddresses"
NETWORK = "Microsoft.Network/virtualNetworks"
# the oldest versions that have what is used, so that all clouds know them; by the longest prefix
_VERSIONS: Mapping[str, str] = {
    "Microsoft.Compute": "2024-03-01",
    "Microsoft.Compute/disks": "2023-04-02",
    "Microsoft.Compute/snapshots": "2023-04-02",
    "Microsoft.Compute/galleries": "2022-03-03",
    "Microsoft.Compute/skus": "2021-07-01",
    "Microsoft.Network": "2024-05-01",
    "": "2021-04-01",
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.()-]{0,89}")
_REACH = "check properties.endpoint, the network and the proxy"
_RIGHTS = "give the service principal the role of docs/azure.md; a new one takes minutes to count everywhere"
_QUOTA = "delete some, or have Microsoft raise the quota"
_ROOM = "use another size, zone or region, fewer members, or try later"
_BUSY = "repeat when the other change has ended"
_LOOK = "look for what it may have made before repeating it"
_USED = "delete what uses it first"
_PASSING = ("creating", "updating", "deleting", "running", "accepted", "inprogress")
_DOUBT = (408, 500, 502, 503, 504)
_GENERAL = ("badrequest", "conflict", "deploymentfailed", "operationfailed", "multipleerrorsoccurred")
_CODES: Mapping[str, tuple[type[CpiError], str]] = {
    **dict.fromkeys(("AllocationFailed", "ZonalAllocationFailed", "SkuNotAvailable"), (contract.NoPlacement, _ROOM)),
    "OverconstrainedAllocationRequest": (contract.NoPlacement, _ROOM),
    "OverconstrainedZonalAllocationRequest": (contract.NoPlacement, _ROOM),
    **dict.fromkeys(("QuotaExceeded", "SubnetIsFull"), (contract.QuotaExceeded, _QUOTA)),
    "PropertyChangeNotAllowed": (contract.NotSupported, "recreate it: this cannot be changed"),
    "PreconditionFailed": (contract.Changed, "read it again, and decide on what is there now"),
    "ConditionNotMet": (contract.Changed, "read it again, and decide on what is there now"),
    "InvalidResourceReference": (contract.InvalidCall, "name what exists in this subscription"),
    "RequestDisallowedByPolicy": (contract.PrivilegeMissing, "have the policy's owner allow it"),
    "ScopeLocked": (contract.PrivilegeMissing, "have the lock's owner remove it"),
    "AuthorizationFailed": (contract.PrivilegeMissing, _RIGHTS),
    "LinkedAuthorizationFailed": (contract.PrivilegeMissing, _RIGHTS),
    "NicReservedForAnotherVm": (Unavailable, "repeat after 180 seconds"),
    "InternalExecutionError": (CpiError, "repeat"),
    **dict.fromkeys(("AnotherOperationInProgress", "RetryableError", "Conflict"), (Unavailable, _BUSY)),
    **dict.fromkeys(("OperationPreempted", "CanceledAndSupersededDueToAnotherOperation"), (Unavailable, _BUSY)),
}


class Refusal(ClassifiedRefusal):
    """ARM's refusal by its code."""

    def __init__(self, what: str, code: str, text: str, status: int, retry_after: float | None = None) -> None:
        self.azure_code = code
        self.http_status = status
        self.kind, remedy = _meaning(code, text, status)
        details = {} if retry_after is None else {"retry_after": retry_after}
        retryable = self.kind.retryable or code == "InternalExecutionError"
        super().__init__(
            f"Azure refused to {what} ({code})", why=text, remedy=remedy, retryable=retryable, details=details
        )

    def is_one(self, *codes: str) -> bool:
        return self.azure_code in codes

    @property
    def is_missing(self) -> bool:
        return self.http_status == HTTPStatus.NOT_FOUND


class Failed(Refusal):
    """A change that Azure took, and that is known to have failed. What it was to make may be there."""


def remove_half_made(error: CpiError, remove: Callable[[], object]) -> CpiError:
    """Answers the error to raise after it."""
    try:
        remove()
    except CpiError as trouble:
        return OutcomeUnknown(
            f"{error.what}, and what it made could not be removed", why=f"{error}; then {trouble}", remedy=_LOOK
        )
    return error


def _meaning(code: str, text: str, status: int) -> tuple[type[CpiError], str]:
    words = text.lower()
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Throttled, "repeat later"
    if code == "OperationNotAllowed" and "quota" in words:
        return contract.QuotaExceeded, _QUOTA
    if code == "OperationNotAllowed" and "availability set" in words and "cannot be deleted" in words:
        return contract.GroupInUse, "delete its members first"
    if code in _CODES:
        return _CODES[code]
    if status == HTTPStatus.UNAUTHORIZED:
        return AuthenticationFailed, "check the credentials and the clock of this machine"
    if status == HTTPStatus.FORBIDDEN:
        return contract.PrivilegeMissing, _RIGHTS
    if "inuse" in code.lower() or code.endswith("CannotBeDeleted"):
        return CpiError, _USED
    if status == HTTPStatus.BAD_REQUEST:
        return contract.InvalidCall, "correct what the message names"
    return CpiError, "see the message; repeat once it is mended"


class Client:
    """Usable from any number of threads. Names are those of resources in the configured resource group."""

    def __init__(self, settings: Settings, permit: Permit) -> None:
        self.settings = settings
        self.permit = permit
        self.director_uuid = permit.director_uuid
        self.http = Http(
            HttpOptions(settings.connect_timeout, settings.request_timeout, settings.ca_cert, False, settings.proxy_url)
        )
        self.endpoint = settings.endpoint or CLOUDS[settings.environment][1]
        self._login = Login(settings, permit.credential_sources)

    # -- ids --

    def id(self, type_: str, name: str, group: str | None = None) -> str:
        return f"{self.group_id(group)}/providers/{type_}/{name}"

    def group_id(self, group: str | None = None) -> str:
        return f"{self.subscription}/resourceGroups/{group or self.settings.resource_group}"

    @property
    def subscription(self) -> str:
        return f"/subscriptions/{self.settings.subscription_id}"

    def in_region(self, provider: str) -> str:
        return f"{self.subscription}/providers/{provider}/locations/{self.settings.location}"

    # -- questions --

    def get(self, type_: str, name: str, **query: str) -> Row | None:
        """None for what is not there, and for names that nothing can have."""
        if not is_name(name):
            return None
        return self.get_id(self.id(type_, name), **query)

    def get_id(self, id_: str, **query: str) -> Row | None:
        try:
            return self.ask(f"read {name_of(id_)}", id_, **query)
        except Refusal as error:
            if error.is_missing and not error.is_one("ResourceGroupNotFound", "SubscriptionNotFound"):
                return None
            raise

    def ask(self, what: str, path: str, **query: str) -> Row:
        return self._ask_url(what, self._url(path, query))

    def page(self, what: str, path: str, link: str | None = None, **query: str) -> tuple[list[Row], str | None]:
        """One page, and the link of the next one; an empty page may have one."""
        if link and _origin(link) != _origin(self.endpoint):
            raise CpiError(f"Azure names a next page at {_origin(link)}", remedy="check properties.endpoint")
        found = self._ask_url(what, link or self._url(path, query))
        return list(found.get("value") or ()), found.get("nextLink") or None

    def list_all(self, what: str, path: str, **query: str) -> Iterator[Row]:
        link: str | None = None
        while True:
            rows, link = self.page(what, path, link, **query)
            yield from rows
            if not link:
                return

    def list_type(self, type_: str, **query: str) -> Iterator[Row]:
        """Of the resource group. Lists lag: what they do not show may be there."""
        return self.list_all(f"list {type_}", f"{self.group_id()}/providers/{type_}", **query)

    # -- changes --

    def put(self, what: str, id_: str, body: Row, *, if_absent: bool = False) -> Row:
        """Create or update, and wait for the end; the resource as it is then."""
        headers = {"If-None-Match": "*"} if if_absent else {}
        answer = self._change(what, "PUT", self._url(id_), body, headers)
        return self.finish(what, answer, id_)

    def put_or_remove(self, what: str, id_: str, body: Row, remove: Callable[[], object]) -> Row:
        """The same; after a failure nothing is left."""
        try:
            return self.put(what, id_, body)
        except Failed as error:
            raise remove_half_made(error, remove) from error

    def patch(self, what: str, id_: str, body: Row, etag: str | None = None) -> None:
        headers = {"If-Match": etag} if etag else {}
        self.finish(what, self._change(what, "PATCH", self._url(id_), body, headers), id_)

    def post(self, what: str, id_: str, action: str, body: Row | None = None) -> Row:
        """What the operation answers in the end."""
        answer = self._change(what, "POST", self._url(f"{id_}/{action}"), body, {})
        return self._wait(what, answer, id_) or _body(answer)

    def delete(self, what: str, id_: str) -> None:
        """Gone already is fine."""
        try:
            answer = self._change(what, "DELETE", self._url(id_), None, {})
        except Refusal as error:
            if error.is_missing:
                return
            raise
        if answer.status != HTTPStatus.NO_CONTENT:
            self._wait(what, answer, id_)

    def begin_put(self, what: str, id_: str, body: Row) -> Answer:
        """Create what must not be there; the answer of the beginning, for `finish`."""
        return self._change(what, "PUT", self._url(id_), body, {"If-None-Match": "*"})

    def finish(self, what: str, answer: Answer, id_: str) -> Row:
        self._wait(what, answer, id_)
        try:
            found = self.get_id(id_)
        except CpiError as error:
            raise _in_doubt(what, error) from error
        if found is None:
            raise OutcomeUnknown(f"what was made to {what} is not there", why="Azure called it done", remedy=_LOOK)
        return found

    def has_ended(self, what: str, answer: Answer, id_: str) -> bool:
        """Whether the operation has; raises if it failed."""
        url = answer.headers.get("azure-asyncoperation") or answer.headers.get("location")
        return self._poll(what, url, id_)[0]

    def _wait(self, what: str, answer: Answer, id_: str) -> Row | None:
        """Until the operation has ended: by Azure-AsyncOperation, Location, or the state in the body, whichever is told
        first. What the operation answers, if it does."""
        operation, location = answer.headers.get("azure-asyncoperation"), answer.headers.get("location")
        state = _state(_body(answer))
        if not operation and not (location and answer.status == HTTPStatus.ACCEPTED) and state not in _PASSING:
            if state == "failed":
                raise Failed(what, "ProvisioningFailed", f"{id_} is in state Failed", 409)
            return None
        url = operation or location
        deadline, rest = time.monotonic() + self.settings.state_timeout, answer.retry_after
        while True:
            time.sleep(min(max(self.settings.poll_s, rest or 0.0), max(deadline - time.monotonic(), 0.0)))
            done, output, rest = self._poll(what, url, id_)
            if done:
                return output
            if time.monotonic() >= deadline:
                raise OutcomeUnknown(
                    f"Azure did not {what} within {self.settings.state_timeout:.0f} s",
                    why=f"the operation {urlsplit(url or id_).path} goes on",
                    remedy=_LOOK,
                    details={"operation": url or id_},
                )

    def _poll(self, what: str, url: str | None, id_: str) -> tuple[bool, Row | None, float | None]:
        """Azure has taken the change: what is said about the question is never said about the change."""
        try:
            return self._poll_once(what, url, id_)
        except Failed:
            raise
        except CpiError as error:
            if is_passing(error):
                return False, None, error.details.get("retry_after")
            raise _in_doubt(what, error) from error

    def _poll_once(self, what: str, url: str | None, id_: str) -> tuple[bool, Row | None, float | None]:
        if url is None or _origin(url) != _origin(self.endpoint):
            return self._poll_resource(what, id_)
        try:
            answer = self._send(f"follow how to {what}", "GET", url, None, {}, changes=False)
        except Refusal as error:
            if error.is_missing:  # operations are forgotten after a while
                return self._poll_resource(what, id_)
            raise
        found = _body(answer)
        if "status" not in found:
            return answer.status != HTTPStatus.ACCEPTED, found or None, answer.retry_after
        word = str(found["status"]).lower()
        if word in ("failed", "canceled"):
            code, text = _read_error(found, word.capitalize())
            raise Failed(what, code, text, HTTPStatus.CONFLICT)
        output = (found.get("properties") or {}).get("output")
        return word == "succeeded", output, answer.retry_after

    def _poll_resource(self, what: str, id_: str) -> tuple[bool, Row | None, float | None]:
        found = self.get_id(id_)
        if found is not None and _state(found) == "failed":
            raise Failed(what, "ProvisioningFailed", f"{id_} is in state Failed", HTTPStatus.CONFLICT)
        return found is None or _state(found) not in _PASSING, None, None

    # -- one request --

    def _ask_url(self, what: str, url: str) -> Row:
        return ask_patiently(
            lambda: _body(self._send(what, "GET", url, None, {}, changes=False)),
            retries=self.settings.retries,
            first_rest_s=self.settings.poll_s / 4,
            rest_after=_rest_after,
        )

    def _change(self, what: str, method: str, url: str, body: Row | None, headers: Mapping[str, str]) -> Answer:
        return self._send(what, method, url, body, headers, changes=True)

    def _send(
        self, what: str, method: str, url: str, body: Row | None, headers: Mapping[str, str], *, changes: bool
    ) -> Answer:
        token = self._login.token()
        answer = self._request(what, method, url, body, {**headers, "Authorization": f"Bearer {token}"}, changes)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            token = self._login.token(refused=token)
            answer = self._request(what, method, url, body, {**headers, "Authorization": f"Bearer {token}"}, changes)
        if answer.status < HTTPStatus.BAD_REQUEST:
            return answer
        code, text = _read_error(_body(answer), f"HTTP {answer.status}")
        if answer.status in _DOUBT:
            kind = OutcomeUnknown if changes else Unavailable
            raise kind(f"Azure failed to {what} ({code})", why=text, remedy=_LOOK if changes else "repeat")
        raise Refusal(what, code, text, answer.status, answer.retry_after)

    def _request(
        self, what: str, method: str, url: str, body: Row | None, headers: Mapping[str, str], changes: bool
    ) -> Answer:
        raw = None if body is None else json.dumps(body).encode()
        sent = {**headers, "x-ms-client-request-id": str(uuid.uuid4()), "Accept": "application/json"}
        sent |= {"Content-Type": "application/json"} if raw is not None else {"Content-Length": "0"} if changes else {}
        try:
            with self.permit.call(_class_of(method, url), changes=changes) as call:
                answer = self.http.request(method, url, sent, raw)
                if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
                    call.slow_down(answer.retry_after)
                return answer
        except (NotTaken, AnswerLost) as error:
            raise call_error(error, what=what, cloud="Azure", changes=changes, remedy=_REACH) from None

    def _url(self, path: str, query: Mapping[str, str] | None = None) -> str:
        given = {("$" + key if key in ("filter", "expand") else key): value for key, value in (query or {}).items()}
        return f"{self.endpoint}{quote(path, safe='/')}?{urlencode({'api-version': _version(path), **given})}"


def is_passing(error: Exception) -> bool:
    """Whether it is trouble of the moment, and says nothing of what was asked for."""
    return (error.kind if isinstance(error, Refusal) else type(error)) in (Throttled, Unavailable)


def _in_doubt(what: str, error: CpiError) -> OutcomeUnknown:
    if isinstance(error, OutcomeUnknown):
        return error
    return OutcomeUnknown(f"Azure was to {what}, and does not say how it ended", why=str(error), remedy=_LOOK)


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def name_of(id_: str) -> str:
    return id_.rsplit("/", 1)[-1]


def is_same(one: str | None, other: str | None) -> bool:
    """Ids come back in another case than they were sent."""
    return (one or "").lower() == (other or "").lower()


def _version(path: str) -> str:
    resource = path.partition("/providers/")[2].lower()
    fitting = [prefix for prefix in _VERSIONS if resource.startswith(prefix.lower())]
    return _VERSIONS[max(fitting, key=len)]


def _class_of(method: str, url: str) -> str:
    """What Azure counts together: one kind of calls of one provider."""
    provider = url.partition("/providers/")[2].partition("/")[0] or "resources"
    return f"{provider} {'reads' if method == 'GET' else 'deletes' if method == 'DELETE' else 'writes'}"


def _origin(url: str) -> str:
    where = urlsplit(url)
    return f"{where.scheme}://{where.netloc}".lower()


def _body(answer: Answer) -> Row:
    try:
        found = json.loads(answer.body) if answer.body else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _state(body: Row) -> str:
    return str((body.get("properties") or {}).get("provisioningState") or "").lower()


def _read_error(body: Row, otherwise: str) -> tuple[str, str]:
    error = body.get("error")
    if not isinstance(error, dict):
        return otherwise, str(body.get("message") or "Azure gives no reason")
    inner = next((one for one in error.get("details") or () if isinstance(one, dict) and one.get("code")), None)
    if inner and str(error.get("code")).lower() in _GENERAL:
        error = inner
    return str(error.get("code") or otherwise), str(error.get("message") or "")


def _rest_after(error: Exception, usual: float) -> float | None:
    if not is_passing(error) or not isinstance(error, CpiError):
        return None
    return max(usual, float(error.details.get("retry_after") or 0.0))
