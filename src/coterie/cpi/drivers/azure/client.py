"""Calls to Azure Resource Manager: one attempt for whatever changes something, repeats for questions, pages, operations
that run long, and the meaning of each refusal."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

from coterie.cpi import contract
from coterie.cpi.contract import AuthenticationFailed, CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.azure.login import CLOUDS, Login
from coterie.cpi.drivers.azure.properties import Settings
from coterie.cpi.kit.calls import ClassifiedRefusal, is_passing, rest_after
from coterie.cpi.kit.create_once import remove_half_made
from coterie.cpi.kit.http import Answer, Http, ask_patiently
from coterie.cpi.kit.http_calls import HttpCalls, json_request
from coterie.cpi.kit.permit import Permit
from coterie.cpi.kit.waits import Waits

Row = dict[str, Any]
Type = Literal[
    "VM", "availability set", "scale set", "host group", "disk", "snapshot", "image", "NIC", "security group",
    "application security group", "public address", "virtual network",
]  # fmt: skip
"""The types of resources, as errors name them."""
_TYPES: Mapping[Type, str] = {
    "VM": "Microsoft.Compute/virtualMachines",
    "availability set": "Microsoft.Compute/availabilitySets",
    "scale set": "Microsoft.Compute/virtualMachineScaleSets",
    "host group": "Microsoft.Compute/hostGroups",
    "disk": "Microsoft.Compute/disks",
    "snapshot": "Microsoft.Compute/snapshots",
    "image": "Microsoft.Compute/images",
    "NIC": "Microsoft.Network/networkInterfaces",
    "security group": "Microsoft.Network/networkSecurityGroups",
    "application security group": "Microsoft.Network/applicationSecurityGroups",
    "public address": "Microsoft.Network/publicIPAddresses",
    "virtual network": "Microsoft.Network/virtualNetworks",
}
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
        self.http = Http(settings.http_options())
        self.endpoint = settings.endpoint or CLOUDS[settings.environment][1]
        self.waits = Waits(settings.state_timeout, settings.poll_s, slowest_poll_s=max(settings.poll_s, 5.0))
        login = Login(settings, permit.credential_sources)
        self.calls = HttpCalls(self.http, permit, login.token, "Azure", _REACH)

    # -- ids --

    def id(self, type_: Type, name: str, group: str | None = None) -> str:
        return f"{self.group_id(group)}/providers/{_TYPES[type_]}/{name}"

    def group_id(self, group: str | None = None) -> str:
        return f"{self.subscription}/resourceGroups/{group or self.settings.resource_group}"

    @property
    def subscription(self) -> str:
        return f"/subscriptions/{self.settings.subscription_id}"

    # -- questions --

    def get(self, type_: Type, name: str, **query: str) -> Row | None:
        """None for what is not there, and for names that nothing can have."""
        return self.get_id(self.id(type_, name), **query) if _NAME.fullmatch(name) else None

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

    def page_of(self, type_: Type, link: str | None = None) -> tuple[list[Row], str | None]:
        """Of the resource group. Lists lag: what they do not show may be there."""
        return self.page(f"list {type_}s", self.id(type_, "").rstrip("/"), link)

    def list_type(self, type_: Type, *, everywhere: bool = False, **query: str) -> Iterator[Row]:
        """Of the resource group, or of the whole subscription."""
        where = self.subscription if everywhere else self.group_id()
        return self.list_all(f"list {type_}s", f"{where}/providers/{_TYPES[type_]}", **query)

    # -- changes --

    def put(self, type_: Type, name: str, body: Row, verb: str = "create") -> Row:
        """Create or update, and wait for the end; the resource as it is then."""
        return self.put_id(f"{verb} {type_} {name}", self.id(type_, name), self._at_home(body))

    def put_id(self, what: str, id_: str, body: Row) -> Row:
        return self._finish(what, self._change(what, "PUT", id_, body), id_)

    def create(self, type_: Type, name: str, body: Row, remove: Callable[[], object] | None = None) -> Row:
        """The same; after a failure nothing is left."""
        try:
            return self.put(type_, name, body)
        except Failed as error:
            raise remove_half_made(error, remove or (lambda: self.delete(type_, name))) from error

    def begin_put(self, type_: Type, name: str, body: Row) -> Callable[[], bool]:
        """Create what must not be there. Whether the operation has ended; raises if it failed."""
        what, id_ = f"create {type_} {name}", self.id(type_, name)
        answer = self._change(what, "PUT", id_, self._at_home(body), {"If-None-Match": "*"})
        return lambda: self._poll(what, _operation_of(answer), id_)[0]

    def patch(self, type_: Type, name: str, body: Row, etag: str | None = None) -> None:
        what, id_ = f"change {type_} {name}", self.id(type_, name)
        self._finish(what, self._change(what, "PATCH", id_, body, {"If-Match": etag} if etag else {}), id_)

    def post(self, type_: Type, name: str, action: str, body: Row | None = None) -> Row:
        """What the operation answers in the end."""
        what, id_ = f"do {action} on {type_} {name}", self.id(type_, name)
        answer = self._change(what, "POST", f"{id_}/{action}", body)
        return self._wait(what, answer, id_) or answer.document()

    def delete(self, type_: Type, name: str) -> None:
        """Gone already is fine; so is a name that nothing can have."""
        if _NAME.fullmatch(name):
            self.delete_id(f"delete {type_} {name}", self.id(type_, name))

    def delete_id(self, what: str, id_: str) -> None:
        try:
            answer = self._change(what, "DELETE", id_, None)
        except Refusal as error:
            if error.is_missing:
                return
            raise
        if answer.status != HTTPStatus.NO_CONTENT:
            self._wait(what, answer, id_)

    def repeat(self, what: str, act: Callable[[], object], *passing: str, limit_s: float | None = None) -> None:
        """Do it as soon as Azure does not refuse it with one of these codes any more."""

        def attempt() -> bool | None:
            try:
                act()
            except Refusal as error:
                if not error.is_one(*passing):
                    raise
                return None
            return True

        self.waits.until(what, attempt, limit_s)

    def _at_home(self, body: Row) -> Row:
        return {"location": self.settings.location, **body}

    def _finish(self, what: str, answer: Answer, id_: str) -> Row:
        self._wait(what, answer, id_)
        try:
            found = self.get_id(id_)
        except CpiError as error:
            raise _in_doubt(what, error) from error
        if found is None:
            raise OutcomeUnknown(f"what was made to {what} is not there", why="Azure called it done", remedy=_LOOK)
        return found

    def _wait(self, what: str, answer: Answer, id_: str) -> Row:
        """Until the operation has ended: by Azure-AsyncOperation, Location, or the state in the body, whichever is told
        first. What the operation answers, if it does."""
        url = _operation_of(answer)
        if url is None and _is_settled(what, id_, answer.document()):
            return {}

        def look() -> Row | None:
            done, output, rest = self._poll(what, url, id_)
            if done:
                return output or {}
            time.sleep(max((rest or 0.0) - self.settings.poll_s, 0.0))
            return None

        first = max(answer.retry_after or 0.0, self.settings.poll_s)
        why = f"the operation {urlsplit(url or id_).path} goes on"
        return self.waits.until("Azure", look, first_s=first, why=why, verb=what, details={"operation": url or id_})

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
            return _is_settled(what, id_, self.get_id(id_)), None, None
        try:
            answer = self._send(f"follow how to {what}", "GET", url, None)
        except Refusal as error:
            if error.is_missing:  # operations are forgotten after a while
                return _is_settled(what, id_, self.get_id(id_)), None, None
            raise
        found = answer.document()
        if "status" not in found:
            return answer.status != HTTPStatus.ACCEPTED, found or None, answer.retry_after
        word = str(found["status"]).lower()
        if word in ("failed", "canceled"):
            code, text = _read_error(found, word.capitalize())
            raise Failed(what, code, text, HTTPStatus.CONFLICT)
        output = (found.get("properties") or {}).get("output")
        return word == "succeeded", output, answer.retry_after

    # -- one request --

    def _ask_url(self, what: str, url: str) -> Row:
        return ask_patiently(
            lambda: self._send(what, "GET", url, None).document(),
            retries=self.settings.retries,
            first_rest_s=self.settings.poll_s / 4,
            rest_after=rest_after,
        )

    def _change(
        self, what: str, method: str, path: str, body: Row | None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        return self._send(what, method, self._url(path), body, headers)

    def _send(
        self, what: str, method: str, url: str, body: Row | None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        changes, (raw, kind) = method != "GET", json_request(body)
        sent = {**kind, **(headers or {}), "x-ms-client-request-id": str(uuid.uuid4())}
        answer = self.calls.send(what, method, url, sent, raw, pace=_class_of(method, url), changes=changes)
        if answer.status < HTTPStatus.BAD_REQUEST:
            return answer
        code, text = _read_error(answer.document(), f"HTTP {answer.status}")
        if answer.status in _DOUBT:
            kind_of = OutcomeUnknown if changes else Unavailable
            raise kind_of(f"Azure failed to {what} ({code})", why=text, remedy=_LOOK if changes else "repeat")
        raise Refusal(what, code, text, answer.status, answer.retry_after)

    def _url(self, path: str, query: Mapping[str, str] | None = None) -> str:
        given = {("$" + key if key in ("filter", "expand") else key): value for key, value in (query or {}).items()}
        return f"{self.endpoint}{quote(path, safe='/')}?{urlencode({'api-version': _version(path), **given})}"


def _in_doubt(what: str, error: CpiError) -> OutcomeUnknown:
    if isinstance(error, OutcomeUnknown):
        return error
    return OutcomeUnknown(f"Azure was to {what}, and does not say how it ended", why=str(error), remedy=_LOOK)


def name_of(id_: str) -> str:
    return id_.rsplit("/", 1)[-1]


def is_same(one: str | None, other: str | None) -> bool:
    """Ids come back in another case than they were sent."""
    return (one or "").lower() == (other or "").lower()


def is_a(row: Row, type_: Type) -> bool:
    return is_same(row.get("type"), _TYPES[type_])


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


def _operation_of(answer: Answer) -> str | None:
    location = answer.headers.get("location") if answer.status == HTTPStatus.ACCEPTED else None
    return answer.headers.get("azure-asyncoperation") or location


def _is_settled(what: str, id_: str, row: Row | None) -> bool:
    state = provisioning_state(row or {})
    if state == "failed":
        raise Failed(what, "ProvisioningFailed", f"{id_} is in state Failed", HTTPStatus.CONFLICT)
    return state not in _PASSING


def provisioning_state(row: Row) -> str:
    """In lower case; nothing where Azure tells none."""
    return str((row.get("properties") or {}).get("provisioningState") or "").lower()


def _read_error(body: Row, otherwise: str) -> tuple[str, str]:
    error = body.get("error")
    if not isinstance(error, dict):
        return otherwise, str(body.get("message") or "Azure gives no reason")
    inner = next((one for one in error.get("details") or () if isinstance(one, dict) and one.get("code")), None)
    if inner and str(error.get("code")).lower() in _GENERAL:
        error = inner
    return str(error.get("code") or otherwise), str(error.get("message") or "")
