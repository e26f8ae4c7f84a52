"""One request at a time: whether the definition knows it, whether it is one too many, what it does. Operations, request
ids and lists are here; what resources are is in `compute`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from coterie.sandbox.datacenter import Account
from coterie.sandbox.errors import AnswerLost, SandboxError
from coterie.sandbox.fronts.gcp.call import REGION, Call, Operation, Settings, Trick, moment
from coterie.sandbox.fronts.gcp.compute import Compute
from coterie.sandbox.fronts.gcp.definition import Method, document, find_method, require_body, require_queries
from coterie.sandbox.fronts.gcp.filters import read_filter
from coterie.sandbox.fronts.gcp.refusals import ApiError, invalid, not_found, translate
from coterie.sandbox.fronts.gcp.shelf import Resource, Row, Shelf
from coterie.sandbox.fronts.http_server import Reply

LINK = "https://www.googleapis.com/compute/v1/projects"
_PREFIX = "/compute/v1/"
_RATES = {"reads": 25.0, "changes": 20.0, "lists": 10.0, "operations": 25.0}  # per second; a bucket holds ten seconds


class Front:
    """`account`: the datacenter's account that everything is in. `watch`: is told of each request. `lose`: whether its
    answer is lost. `unreachable`: zones that answer nothing now."""

    def __init__(self, account: Account, project: str, settings: Settings | None = None) -> None:
        self.account = account
        self.project = project
        self.settings = settings or Settings()
        self.shelf = Shelf(account)
        self.tricks: list[Trick] = []
        self.watch: Callable[[str], object] = lambda method: None
        self.lose: Callable[[str], bool] = lambda method: False
        self.unreachable: set[str] = set()
        self.refused = 0  # calls over the rate
        self.scale = 1.0  # how much higher the rates are, for tests
        self._buckets: dict[str, tuple[float, float]] = {}
        self._operations: dict[str, Operation] = {}
        self._open: list[Operation] = []
        self.requests: dict[str, tuple[str, str]] = {}  # request id → (what it was, operation)
        self._serial = int(time.time() * 1000)
        self.lock = threading.RLock()
        self.compute = Compute(self)
        self.compute.furnish()

    # -- one request --

    def answer(self, verb: str, url: str, raw: bytes) -> Reply:
        where = urlsplit(url)
        path, query = unquote(where.path), dict(parse_qsl(where.query, keep_blank_values=True))
        try:
            method, names = find_method(verb, path.removeprefix(_PREFIX))
            self.watch(method.id)
            if method.action == "wait":
                self._block(names["operation"])
            with self.lock:
                self.finish_due()
                reply = self._answer(method, names, query, path, raw)
                reply.lost = reply.lost or (verb != "GET" and method.action != "wait" and self.lose(method.id))
                return reply
        except ApiError as error:
            return Reply(error.status, error.body())
        except AnswerLost:
            return Reply(0, lost=True)
        except SandboxError as error:
            found = translate(error, REGION)
            return Reply(found.status, found.body())

    def _answer(self, method: Method, names: dict[str, str], query: dict[str, str], path: str, raw: bytes) -> Reply:
        require_queries(method, query)
        if names["project"] != self.project:
            raise ApiError(404, "notFound", f"The resource 'projects/{names['project']}' was not found")
        self._require_rate(method)
        tricks = self._take_tricks(method.id)
        if "throttle" in tricks:
            raise ApiError(403, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries'")
        if "refuse" in tricks:
            raise ApiError(403, "forbidden", f"Required 'compute.{method.id}' permission for 'projects/{self.project}'")
        body = _read(raw)
        require_body(method, body)
        _, _, below = path.partition(f"/projects/{self.project}")
        call = Call(method, names, query, body or {}, below.strip("/"))
        self.compute.require_place(call)
        key, known = f"{method.id} {path}", self.requests.get(query.get("requestId", ""))
        if known:
            if known[0] != key:
                raise invalid("Invalid value for field 'requestId': it was used with another request.")
            return Reply(200, self.show_operation(self._operations[known[1]]), lost="lose" in tricks)
        reply = self._run(call, fails="fail" in tricks)
        if "requestId" in query and reply.body.get("kind") == "compute#operation":
            self.requests[query["requestId"]] = key, reply.body["name"]
        made = self.shelf.get(f"{call.path}/{call.body.get('name')}")
        if "late" in tricks and made:
            made.facts["listed_from"] = time.time() + 0.3
        reply.lost = "lose" in tricks
        return reply

    def _run(self, call: Call, *, fails: bool) -> Reply:
        kind, action = call.method.kind, call.method.action
        if fails:
            text = "Internal error. Please try again or contact Google Support."
            return self.begin(call, call.path, error=ApiError(503, "backendError", text, "INTERNAL_ERROR"))
        handler = getattr(self.compute, f"{action}_{kind}", None) or getattr(self.compute, f"any_{action}", None)
        if kind.endswith("Operations"):
            return self._operation(call)
        if handler:
            found: Reply = handler(call)
            return found
        if action in ("get", "list", "aggregatedList"):
            return getattr(self, f"_{action}")(call)  # type: ignore[no-any-return]
        raise ApiError(501, "notImplemented", f"This front does not simulate {call.method.id}.")

    def _take_tricks(self, method: str) -> set[str]:
        taken = [one for one in self.tricks if one.method == method]
        self.tricks = [one for one in self.tricks if one not in taken]
        return {one.what for one in taken}

    def _require_rate(self, method: Method) -> None:
        name = "changes" if method.verb != "GET" else "lists" if "ist" in method.action else "reads"
        name = "operations" if method.kind.endswith("Operations") else name
        rate, now = _RATES[name] * self.scale, time.monotonic()
        left, at = self._buckets.get(name, (rate * 10, now))
        left = min(rate * 10, left + (now - at) * rate)
        self._buckets[name] = max(left - 1, 0.0), now
        if left < 1 and self.settings.throttle:
            self.refused += 1
            raise ApiError(403, "rateLimitExceeded", f"Quota exceeded for quota group '{name}' per minute.")

    def empty_buckets(self) -> None:
        """As after a burst of another client."""
        self._buckets = {name: (0.0, time.monotonic()) for name in _RATES}

    # -- operations --

    def begin(
        self,
        call: Call,
        target: str,
        end: Callable[[], object] | None = None,
        error: ApiError | None = None,
        *,
        at_once: bool = False,
    ) -> Reply:
        """The answer to a change; most of them are never done with the first one."""
        self._serial += 1
        found = self.shelf.get(target)
        id_ = found.row["id"] if found else str(self._serial)
        now = time.time()
        made = Operation(
            f"operation-{self._serial}", call.scope, call.method.action, target, id_, now, end, error, started=now
        )
        self._operations[made.name] = made
        if at_once and not error:
            made.ended = now
            return Reply(200, self.show_operation(made))
        made.due = now + self.settings.operation_s
        self._open.append(made)
        return Reply(200, self.show_operation(made))

    def finish_due(self) -> None:
        now = time.time()
        for one in [each for each in self._open if each.due <= now]:
            self._open.remove(one)
            one.ended = now
            if one.end:
                one.end()

    def show_operation(self, one: Operation) -> Row:
        done = one.ended is not None
        shown: Row = {
            "kind": "compute#operation",
            "id": one.name.rpartition("-")[2],
            "name": one.name,
            "operationType": one.type,
            "targetLink": self.link(one.target),
            "targetId": one.target_id,
            "status": "DONE" if done else "RUNNING",
            "progress": 100 if done else 0,
            "user": "kit@sandbox",
            "insertTime": moment(one.started),
            "startTime": moment(one.started),
            "selfLink": self.link(f"{one.scope}/operations/{one.name}"),
        }
        word = one.scope.split("/")[0].rstrip("s")
        if word != "global":
            shown[word] = self.link(one.scope)
        if one.ended is not None:
            shown["endTime"] = moment(one.ended)
            if one.error:
                shown |= {"error": one.error.in_operation(), "httpErrorStatusCode": one.error.status}
                shown["httpErrorMessage"] = one.error.reason.upper()
        return shown

    def _operation(self, call: Call) -> Reply:
        found = self._operations.get(call.names.get("operation", ""))
        if found is None or call.method.action not in ("get", "wait"):
            raise not_found(call.path)
        return Reply(200, self.show_operation(found))

    def _block(self, name: str) -> None:
        until = time.monotonic() + self.settings.wait_s
        while time.monotonic() < until:
            with self.lock:
                self.finish_due()
                found = self._operations.get(name)
                if found is None or found.ended is not None:
                    return
            time.sleep(0.005)

    # -- reading --

    def link(self, path: str) -> str:
        return f"{LINK}/{self.project}/{path}"

    def path_of(self, reference: str) -> str:
        """A link, or a part of one, as a path below the project; of another project as it is."""
        found = reference.partition("/v1/")[2] if "://" in reference else reference
        return found.removeprefix(f"projects/{self.project}/")

    def require(self, path: str) -> Resource:
        found = self.shelf.get(path)
        if found is None:
            raise not_found(f"projects/{self.project}/{path}")
        return found

    def _get(self, call: Call) -> Reply:
        return Reply(200, self.compute.show(self.require(call.path)))

    def _list(self, call: Call) -> Reply:
        rows = [one for one in self._listed(call.method.kind) if one.scope == call.scope]
        chosen, token = self._page(call, rows)
        shown = [self.compute.show(one) for one in chosen]
        return Reply(200, {"kind": f"compute#{call.method.kind}List", "items": shown, **token})

    def _aggregatedList(self, call: Call) -> Reply:
        """Scopes without a row carry a warning; so do those that do not answer, or the whole list fails."""
        partial = call.query.get("returnPartialSuccess") == "true"
        if self.unreachable and not partial:
            raise ApiError(503, "backendError", f"Zones {', '.join(sorted(self.unreachable))} are unreachable.")
        kind = call.method.kind
        rows = [one for one in self._listed(kind) if one.scope.split("/")[-1] not in self.unreachable]
        chosen, token = self._page(call, rows)
        scopes = [f"zones/{zone}" for zone in self.compute.zones()]
        scopes = [f"regions/{REGION}"] if kind in ("addresses", "resourcePolicies", "subnetworks") else scopes
        scopes += ["global"] if kind == "addresses" else []
        items: Row = {}
        for scope in scopes:
            inside = [self.compute.show(one) for one in chosen if one.scope == scope]
            gone = scope.split("/")[-1] in self.unreachable
            code = "UNREACHABLE" if gone else "NO_RESULTS_ON_PAGE"
            items[scope] = {kind: inside} if inside else {"warning": {"code": code, "message": f"{code}: {scope}"}}
        silent = [scope for scope in scopes if scope.split("/")[-1] in self.unreachable]
        shown = {"kind": f"compute#{kind}AggregatedList", "items": items, **token}
        return Reply(200, {**shown, "unreachables": silent} if silent else shown)

    def _listed(self, kind: str) -> list[Resource]:
        """Lists lag: what is younger than the lag is missing."""
        now, lag = time.time(), self.settings.list_lag_s
        found = self.compute.fixed(kind) or list(self.shelf.every(kind))
        return [one for one in found if max(one.created + lag, one.facts.get("listed_from", 0.0)) <= now]

    def _page(self, call: Call, rows: list[Resource]) -> tuple[list[Resource], Row]:
        wanted = call.query.get("filter")
        if wanted:
            known = document()["schemas"][_SCHEMAS[call.method.kind]]["properties"]
            fits = read_filter(wanted, known)
            rows = [one for one in rows if fits(self.compute.show(one))]
        start, size = int(call.query.get("pageToken") or 0), int(call.query.get("maxResults") or 500)
        token = {"nextPageToken": str(start + size)} if len(rows) > start + size else {}
        return rows[start : start + size], token


_SCHEMAS = {
    "instances": "Instance",
    "disks": "Disk",
    "snapshots": "Snapshot",
    "images": "Image",
    "resourcePolicies": "ResourcePolicy",
    "firewalls": "Firewall",
    "addresses": "Address",
    "networks": "Network",
    "subnetworks": "Subnetwork",
    "machineTypes": "MachineType",
    "nodeGroups": "NodeGroup",
    "nodeTemplates": "NodeTemplate",
    "zones": "Zone",
    "regions": "Region",
}


def _read(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError as error:
        raise ApiError(400, "parseError", f"Parse Error: {error}") from None
