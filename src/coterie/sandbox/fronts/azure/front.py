"""One request at a time: who asks, whether the definition knows it, whether it is one too many, what it does, and how
its answer looks. Resource groups, operations and errors are here; what resources are is in `compute` and `network`."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from coterie.sandbox.datacenter import Account
from coterie.sandbox.errors import AnswerLost, SandboxError
from coterie.sandbox.fronts.azure.call import LOCATION, Call, Handler, Request, Settings
from coterie.sandbox.fronts.azure.compute import Compute
from coterie.sandbox.fronts.azure.definition import find_operation, require_body, require_queries, require_version
from coterie.sandbox.fronts.azure.limits import Limits
from coterie.sandbox.fronts.azure.network import Network
from coterie.sandbox.fronts.azure.operations import Operations, Pending, status_of
from coterie.sandbox.fronts.azure.refusals import ApiError, not_found, translate
from coterie.sandbox.fronts.azure.shelf import Body, Resource, Shelf
from coterie.sandbox.fronts.http_server import Reply

_PASSING = ("Creating", "Updating")


@dataclass(slots=True)
class Trick:
    """Something that goes wrong once: `what` is fail, throttle, lose or late."""

    what: str
    method: str
    type: str


class Front:
    """`account`: the datacenter's account that everything is in. `watch`: is told of
    each request. `lose`: whether its answer is lost."""

    def __init__(self, account: Account, subscription: str, group: str, settings: Settings | None = None) -> None:
        self.account = account
        self.subscription = subscription
        self.groups = {group.lower(): group}
        self.settings = settings or Settings()
        self.limits = Limits(self.settings.throttle)
        self.shelf = Shelf(account)
        self.operations = Operations()
        self.tricks: list[Trick] = []
        self.watch: Callable[[str, str], object] = lambda method, path: None
        self.lose: Callable[[str, str], bool] = lambda method, path: False
        self._lock = threading.RLock()
        network = Network(self)
        compute = Compute(self, network)
        self.compute = compute
        own: dict[str, Handler] = {"GET resourcegroups": self._resource_group}
        self.handlers: dict[str, Handler] = {**network.handlers(), **compute.handlers(), **own}
        self._recover()
        network.furnish(group, self.settings.address_prefix)

    # -- one request --

    def answer(self, request: Request, origin: str) -> Reply:
        where = urlsplit(request.url)
        path, query = unquote(where.path), dict(parse_qsl(where.query, keep_blank_values=True))
        self.watch(request.method, path)
        with self._lock:
            self.operations.finish_due(time.time())
            try:
                reply = self._answer(request, path, query, origin)
            except ApiError as error:
                reply = _refuse(error)
            except AnswerLost:
                reply = Reply(0, lost=True)
            except SandboxError as error:
                reply = _refuse(translate(error))
            if request.method != "GET" and self.lose(request.method, path):
                reply.lost = True
            reply.headers |= {"x-ms-request-id": str(uuid.uuid4()), "x-ms-correlation-request-id": str(uuid.uuid4())}
            return reply

    def _answer(self, request: Request, path: str, query: dict[str, str], origin: str) -> Reply:
        if "/providers/" in path and "operations/" in path.lower() and "/locations/" in path.lower():
            return self._operation(path.rsplit("/", 1)[-1], query, origin + request.url)
        operation, names = find_operation(request.method, path)
        version = query.get("api-version")
        require_version(operation, version)
        require_queries(operation, query)
        if names.get("subscriptionId", self.subscription).lower() != self.subscription.lower():
            raise ApiError(404, "SubscriptionNotFound", f"The subscription '{names['subscriptionId']}' was not found.")
        group = names.get("resourceGroupName")
        if group is not None and group.lower() not in self.groups:
            raise ApiError(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")
        left = self.limits.require(request.method, operation.type, names.get("vmName"))
        body = _read(request.body)
        tricks = self._take_tricks(request.method, operation.type)
        if "throttle" in tricks:
            raise ApiError(429, "TooManyRequests", "The request is being throttled.", 1)
        require_body(operation, body)
        call = Call(operation, names, path.rstrip("/"), query, request.headers, body or {}, origin)
        handler = self.handlers.get(f"{request.method} {operation.type}")
        if handler is None:
            raise ApiError(501, "NotSimulated", f"This front does not simulate {operation.name}.")
        if "fail" in tricks:
            raise ApiError(409, "InternalExecutionError", "An internal execution error occurred. Please retry later.")
        reply = handler(call)
        if "late" in tricks:
            made = self.shelf.get(call.path)
            if made:
                made.facts["listed_from"] = time.time() + 0.3
        reply.headers |= left
        reply.lost = reply.lost or "lose" in tricks
        return reply

    def _take_tricks(self, method: str, type_: str) -> set[str]:
        taken = [one for one in self.tricks if (one.method, one.type) == (method, type_)]
        self.tricks = [one for one in self.tricks if one not in taken]
        return {one.what for one in taken}

    def upload(self, sas: str, begin: int, raw: bytes) -> None:
        with self._lock:
            self.compute.disks.upload(sas, begin, raw)

    # -- what handlers use --

    def path(self, group: str, type_: str, name: str) -> str:
        """The id of a resource; `type_` like Microsoft.Compute/disks."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{group}/providers/{type_}/{name}"

    def require(self, call: Call, type_: str | None = None) -> Resource:
        found = self.shelf.get(call.path)
        if found is None:
            raise not_found(type_ or f"{call.operation.segments[5]}/{call.type}", call.name, call.group)
        return found

    def page(self, call: Call, rows: list[Body]) -> Reply:
        """The next link has its own skip token and repeats nothing that the caller could build."""
        start, size = int(call.query.get("$skiptoken", "0")), self.settings.page_size
        body: Body = {"value": rows[start : start + size]}
        if len(rows) > start + size:
            query = {**call.query, "$skiptoken": str(start + size)}
            body["nextLink"] = f"{call.origin}{call.path}?{urlencode(query)}"
        return Reply(200, body)

    def listed(self, type_: str, group: str | None) -> list[Resource]:
        """Lists lag: what is younger than the lag is missing. Without a group: of the subscription."""
        now = time.time()
        below = f"/subscriptions/{self.subscription}/resourceGroups/{group}/" if group else ""
        return [
            one
            for one in self.shelf.every(type_, below)
            if max(one.created + self.settings.list_lag_s, one.facts.get("listed_from", 0.0)) <= now
        ]

    def begin(
        self,
        call: Call,
        one: Resource,
        status: int,
        body: Any,
        *,
        kind: str = "operations",
        both: bool = False,
        error: ApiError | None = None,
        output: Any = None,
        end: Callable[[], object] | None = None,
    ) -> Reply:
        """An operation on the resource: the state that it is in until then, and afterwards. `both`: its URL is told in
        two headers."""
        compute = "Microsoft.Compute" in call.path
        due = time.time() + self.settings.operation_s
        finish = end or (lambda: self.settle(one, "Failed" if error else "Succeeded"))
        pending = self.operations.begin(Pending(one.id.lower(), due, finish, error, output, compute))
        service = "Microsoft.Compute" if compute else "Microsoft.Network"
        stem = f"{call.origin}/subscriptions/{self.subscription}/providers/{service}/locations/{LOCATION}"
        query = f"?api-version={call.version}&t=1&c=signed"
        headers = {"Azure-AsyncOperation": f"{stem}/{kind}/{pending.id}{query}"}
        if both:
            result = f"{kind}/{pending.id}{query}&monitor=true" if compute else f"operationResults/{pending.id}{query}"
            headers["Location"] = f"{stem}/{result}"
        return Reply(status, body, headers | self.retry_after())

    def settle(self, one: Resource, state: str) -> None:
        if self.shelf.get(one.id) is one:
            one.state = state
            self.shelf.put(one)

    def retry_after(self) -> dict[str, str]:
        return {"Retry-After": str(self.settings.retry_after_s)} if self.settings.retry_after_s else {}

    def delete_later(self, call: Call, one: Resource) -> Reply:
        self.operations.supersede(one.id)
        one.state = "Deleting"
        self.shelf.put(one)
        kind = "DiskOperations" if call.type in ("disks", "snapshots") else "operations"
        return self.begin(call, one, 202, None, kind=kind, both=True, end=lambda: self.shelf.drop(one))

    # -- the rest --

    def _operation(self, wanted: str, query: Mapping[str, str], url: str) -> Reply:
        left = self.limits.require("GET", "operations", wanted)
        found = self.operations.get(wanted)
        if found is None:
            raise ApiError(404, "NotFound", "The entity was not found in this Azure location.")
        if "monitor" not in query and "operationResults" not in url:
            running = self.retry_after() if found.ended is None else {}
            return Reply(200, status_of(found), {**left, **running})
        if found.ended is None:
            return Reply(202, None, {"Location": url, **self.retry_after(), **left})
        if found.error:
            return _refuse(found.error)
        return Reply(200 if found.output is not None else 204, found.output, left)

    def _resource_group(self, call: Call) -> Reply:
        name = self.groups[call.group.lower()]
        id_ = f"/subscriptions/{self.subscription}/resourceGroups/{name}"
        properties = {"provisioningState": "Succeeded"}
        type_ = "Microsoft.Resources/resourceGroups"
        return Reply(200, {"id": id_, "name": name, "type": type_, "location": LOCATION, "properties": properties})

    def _recover(self) -> None:
        """What was under way when the front ended is done by now."""
        for type_ in {one.type for one in self.shelf.every_one()}:
            for one in self.shelf.every(type_):
                if one.state == "Deleting":
                    self.shelf.drop(one)
                elif one.state in _PASSING:
                    self.settle(one, "Succeeded")


def _read(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError as error:
        raise ApiError(400, "InvalidRequestContent", f"The request content was invalid: {error}") from None


def _refuse(error: ApiError) -> Reply:
    headers = {} if error.retry_after is None else {"Retry-After": str(max(1, round(error.retry_after)))}
    return Reply(error.status, {"error": error.body()}, headers)
