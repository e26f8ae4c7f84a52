"""The client of one vCenter: the session that all threads share, calls, tasks, properties read many objects at a time,
and uploads. Nothing is sent before the first call."""

from __future__ import annotations

import atexit
import http.client
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from coterie.cpi.contract import CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.sdk import Refusal, call_failure
from coterie.cpi.drivers.vsphere.settings import Settings
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.http import tls_context
from coterie.errors import LeaseLost
from coterie.slotted import dataclass

_API_VERSION = "vim.version.version13"  # vSphere 6.7 and later
_TIMEOUT_S = 120
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 1.0
_FAILED_READS = 5
_DEPTH = 12  # of a path in an error
_PIECE = 16 * 1024 * 1024  # of an upload; after each one its lease is renewed


@dataclass(frozen=True, slots=True)
class Row:
    """One object and those of its properties that are set."""

    ref: Any
    values: dict[str, Any]

    def get(self, path: str, default: Any = None) -> Any:
        return self.values.get(path, default)


class Session:
    """Logged in on first use, and again when the vCenter has ended it."""

    def __init__(self, settings: Settings, limit: CallLimit, require_lease: Callable[[], None]) -> None:
        self._settings = settings
        self._limit = limit
        self._require_lease = require_lease
        self._lock = threading.Lock()
        self._content: Any = None
        self._stub: Any = None
        self._logins = 0  # tells the threads that notice an ended session which of them is the first
        self.key = ""

    @property
    def content(self) -> Any:
        """The managers of this vCenter. Logs in."""
        if self._content is None:
            self._log_in(self._logins)
        return self._content

    @property
    def cookie(self) -> str:
        return str(self._stub.cookie or "") if self.content else ""

    def reference(self, kind: Any, moid: str) -> Any:
        """A managed object by its id; no call is made for it."""
        return kind(moid, self._stub) if self.content else None

    def call(self, changes: bool, method: Callable[..., Any], *arguments: Any) -> Any:
        """`changes`: a lost answer leaves the outcome in doubt."""
        for last in (False, True):
            logins = self._logins
            try:
                with self._limit.pace("change" if changes else "question") as call:
                    if changes:
                        self._require_lease()
                    return method(*arguments)
            except (CpiError, LeaseLost):
                raise  # no slot was free, or the lease is lost: nothing was sent
            except Exception as error:
                failed = call_failure(error, changes=changes)
                if isinstance(failed, Throttled):
                    call.slow_down()
                if last:
                    raise failed from error
                if isinstance(failed, Refusal) and failed.is_a("NotAuthenticated"):
                    self._log_in(logins)  # refused before anything was done, so it may be repeated
                elif changes or not isinstance(
                    error, http.client.RemoteDisconnected
                ):  # it closes connections that rest
                    raise failed from error
        raise AssertionError("the second try ends above")

    def tls(self) -> ssl.SSLContext | None:
        if urlsplit(self._settings.url).scheme == "http":
            return None
        return tls_context(self._settings.ca_cert, insecure=self._settings.insecure)

    def _log_in(self, logins: int) -> None:
        """Unless another thread has logged in since there were `logins`."""
        with self._lock:
            if self._logins != logins:
                return
            try:
                with self._limit:
                    content = self._content or self._connect()
                    self._stub.cookie = ""  # with the old one the login would be refused
                    opened = content.sessionManager.Login(self._settings.user, self._settings.password)
            except CpiError:
                raise
            except Exception as error:
                raise call_failure(error, changes=False) from None  # the cause may hold the request with the password
            if self._content is None:
                _SESSION_MANAGERS.append(content.sessionManager)
                weakref.finalize(self, self._stub.DropConnections).atexit = False
            self._content, self._logins, self.key = content, self._logins + 1, str(opened.key)

    def _connect(self) -> Any:
        where = urlsplit(self._settings.url)
        plain = where.scheme == "http"
        port = where.port or (80 if plain else 443)
        self._stub = sdk.SoapStubAdapter(
            host=where.hostname,
            port=-port if plain else port,
            path="/sdk",
            version=_API_VERSION,
            sslContext=self.tls(),
            poolSize=32,
            httpConnectionTimeout=_TIMEOUT_S,
        )
        return sdk.vim.ServiceInstance("ServiceInstance", self._stub).RetrieveContent()


class Client:
    """`query` reads, `change` changes, `run` starts a task and waits for its result."""

    def __init__(self, settings: Settings, limit: CallLimit, require_lease: Callable[[], None]) -> None:
        self._settings = settings
        self._limit = limit
        self._require_lease = require_lease
        self.session = Session(settings, limit, require_lease)
        self.reference = self.session.reference

    @property
    def content(self) -> Any:
        return self.session.content

    def query(self, method: Callable[..., Any], *arguments: Any) -> Any:
        return self.session.call(False, method, *arguments)

    def change(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self.session.call(True, method, *arguments)
        except Refusal as refusal:
            self._name_objects(refusal)
            raise

    def run(self, method: Callable[..., Any], *arguments: Any, between: Callable[[], Any] | None = None) -> Any:
        """The result of a task; its error is raised as a refusal. A task outlives the connection that started it.
        `between`: called before each look at the task."""
        task = self.change(method, *arguments)
        deadline, pause, failed = time.monotonic() + self._settings.task_timeout, _FIRST_PAUSE_S, 0
        why = f"it still ran after {self._settings.task_timeout:.0f} s, or its state could not be read"
        while time.monotonic() < deadline and failed <= _FAILED_READS:
            if between is not None:
                between()
            try:
                row = self.read(task, "info.state", "info.error", "info.result")
            except Unavailable:
                failed += 1
            except Throttled:
                pass  # the task runs on; how soon it may be looked at again is for the pace of calls to say
            except (CpiError, Refusal) as error:
                why = f"its state cannot be read: {error}"  # the task is not known any more after a fail-over
                break
            else:
                if row.get("info.state") == "error":
                    refusal = Refusal(row.get("info.error"))
                    self._name_objects(refusal)
                    raise refusal
                if row.get("info.state") == "success":
                    return row.get("info.result")
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
        raise OutcomeUnknown(
            f"task {task._moId} was not seen to end",
            why=why,
            remedy="look for what it may have made before repeating it",
        )

    def is_busy(self, ref: Any, word: str = "") -> bool:
        """Whether a task of an object is under way, of those whose description has this word."""
        rows = self.read_existing(self.get(ref, "recentTask") or [], sdk.vim.Task, ["info.state", "info.descriptionId"])
        return any(
            row.get("info.state") in ("running", "queued") and word in str(row.get("info.descriptionId")).lower()
            for row in rows
        )

    def get(self, ref: Any, path: str) -> Any:
        """One property of one object; None if it is not set."""
        return self.read(ref, path).get(path)

    def read(self, ref: Any, *paths: str) -> Row:
        """Refused with ManagedObjectNotFound where the object is gone."""
        return self.read_all([ref], type(ref), paths)[0]

    def read_all(self, refs: Sequence[Any], kind: Any, paths: Iterable[str]) -> list[Row]:
        if not refs:
            return []
        query = sdk.vmodl.query.PropertyCollector
        return self._collect([query.ObjectSpec(obj=ref) for ref in refs], kind, paths)

    def read_existing(self, refs: Iterable[Any], kind: Any, paths: Sequence[str]) -> list[Row]:
        """Like `read_all`, without those that are gone: the vCenter names one missing object per refusal."""
        left = list(refs)
        while True:
            try:
                return self.read_all(left, kind, paths)
            except Refusal as refusal:
                missing = getattr(refusal.fault, "obj", None)
                if not refusal.is_a("ManagedObjectNotFound") or missing not in left:
                    raise
                left = [ref for ref in left if ref != missing]

    def list_below(self, folder: Any, kind: Any, *paths: str) -> list[Row]:
        """Everything of a kind in a folder and in its folders."""
        return self._collect([_start(folder, _step("down", sdk.vim.Folder, "childEntity", "down"))], kind, paths)

    def list_children(self, folder: Any, kind: Any, *paths: str) -> list[Row]:
        """What lies directly in a folder."""
        return self._collect([_start(folder, _step("in", sdk.vim.Folder, "childEntity"))], kind, paths)

    def list_vms(self, datacenter: Any, folder: Any, *paths: str) -> list[Row]:
        """Every VM of a datacenter: those in its VM folder, and those on its datastores, since a vApp is no folder."""
        stores = _step("stores", sdk.vim.Datacenter, "datastore", "on-store")
        starts = [
            _start(folder, _step("down", sdk.vim.Folder, "childEntity", "down")),
            _start(datacenter, stores, _step("on-store", sdk.vim.Datastore, "vm")),
        ]
        return self._collect(starts, sdk.vim.VirtualMachine, paths)

    def put_file(self, datacenter: str, path: str, content: bytes) -> None:
        """Write a file `[datastore] folder/name` whole; an older one of that name is replaced."""
        store, _, name = path.removeprefix("[").partition("] ")
        target = f"/folder/{quote(name)}?{urlencode({'dcPath': datacenter, 'dsName': store})}"
        cookie = self.session.cookie
        try:
            with self.connect(urlsplit(self._settings.url).netloc) as connection:
                connection.request("PUT", target, content, {"Cookie": cookie})
                answer = connection.getresponse()
                answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise call_failure(error, changes=False) from None  # repeatable: the same bytes at the same place
        if answer.status in (200, 201, 204):
            return
        why = f"{answer.status} {answer.reason}"
        if answer.status in (502, 503, 429):
            raise Unavailable(f"{path} could not be written", why=why, remedy="repeat")
        raise CpiError(
            f"{path} could not be written",
            why=why,
            remedy="check the privilege Datastore.FileManagement and the datastore",
        )

    def post_file(self, url: str, file: IO[bytes], size: int, progress: Callable[[int], Any]) -> None:
        """A disk of an import, to the place that its lease names; each piece renews the lease by `progress`."""
        where, own = urlsplit(url), urlsplit(self._settings.url)
        is_vcenter = where.hostname in (None, "*") or where.netloc == "*"  # the vCenter writes * for itself
        try:
            with self.connect(own.netloc if is_vcenter else where.netloc) as connection:
                connection.putrequest("POST", where.path)
                connection.putheader("Content-Length", str(size))
                connection.putheader("Content-Type", "application/x-vnd.vmware-streamVmdk")
                connection.endheaders()
                sent = 0
                while piece := file.read(_PIECE):
                    connection.send(piece)
                    sent += len(piece)
                    self.query(progress, min(99, sent * 100 // max(size, 1)))
                answer = connection.getresponse()
                answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable("the upload of the image broke off", why=str(error), remedy="repeat") from error
        if answer.status not in (200, 201):
            raise CpiError("the image was not taken", why=f"{answer.status} {answer.reason}", remedy="repeat")

    @contextmanager
    def connect(self, address: str) -> Iterator[http.client.HTTPConnection]:
        """For uploads, to the vCenter or to a host that it names. An upload is a call: it takes one of the slots."""
        tls, timeout = self.session.tls(), self._settings.task_timeout
        if tls is None:
            connection = http.client.HTTPConnection(address, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(address, timeout=timeout, context=tls)
        with self._limit, closing(connection):
            self._require_lease()
            yield connection

    def _name_objects(self, refusal: Refusal) -> None:
        """Paths that people know, for the ids in a fault; without them the error has the ids."""
        with suppress(CpiError, Refusal):
            for one in refusal.named:
                path, at = list[str](), one
                while at is not None and len(path) < _DEPTH:
                    row = self.read(self.reference(type(at), at._moId), "name", "parent")
                    path, at = [str(row.get("name")), *path], row.get("parent")
                refusal.names[one._moId] = "/".join(path[1:]) or path[0]

    def _collect(self, starts: list[Any], kind: Any, paths: Iterable[str]) -> list[Row]:
        query, collector = sdk.vmodl.query.PropertyCollector, self.content.propertyCollector
        spec = query.FilterSpec(objectSet=starts, propSet=[query.PropertySpec(type=kind, pathSet=list(paths))])
        page = self.query(collector.RetrievePropertiesEx, [spec], query.RetrieveOptions())
        found = []
        while page is not None:
            found += [Row(one.obj, {prop.name: prop.val for prop in one.propSet}) for one in page.objects]
            if not page.token:
                break
            page = self.query(collector.ContinueRetrievePropertiesEx, page.token)
        return found


def _start(ref: Any, *steps: Any) -> Any:
    return sdk.vmodl.query.PropertyCollector.ObjectSpec(obj=ref, skip=True, selectSet=list(steps))


def _step(name: str, kind: Any, path: str, *onward: str) -> Any:
    """From an object of this kind along a property, and on from there by the steps of these names."""
    query = sdk.vmodl.query.PropertyCollector
    return query.TraversalSpec(
        name=name, type=kind, path=path, skip=False, selectSet=[query.SelectionSpec(name=one) for one in onward]
    )


def _log_out() -> None:
    """When the process ends: vCenters take a limited number of idle sessions, and a CPI program is a process per call.

    Not when a driver is dropped, which only closes its connections: another driver's call may be running then.
    """
    for manager in _SESSION_MANAGERS:
        with suppress(Exception):
            manager.Logout()


_SESSION_MANAGERS: list[Any] = []
atexit.register(_log_out)
