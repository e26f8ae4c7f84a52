"""The door: who asks, is it signed, is it well-formed, is it bent by a fault; then the command itself, in one
transaction. Knows no HTTP beyond status numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.sandbox import calls, faults
from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.errors import SandboxError
from coterie.sandbox.faults import Fault
from coterie.sandbox.fronts.cloudstack import (
    commands as _published,  # noqa: F401 # importing it publishes the commands
)
from coterie.sandbox.fronts.cloudstack import configuration, downloads, entities, jobs, parameters, reply, signature
from coterie.sandbox.fronts.cloudstack.call import Call, Caller
from coterie.sandbox.fronts.cloudstack.definition import Command, commands
from coterie.sandbox.fronts.cloudstack.desk import DESKS, Desk
from coterie.sandbox.fronts.cloudstack.furnish import Keys, furnish
from coterie.sandbox.fronts.cloudstack.refusals import (
    INTERNAL,
    THROTTLED,
    UNAUTHORIZED,
    UNSUPPORTED,
    ApiError,
    translate,
)
from coterie.sandbox.fronts.cloudstack.worker import Worker
from coterie.sandbox.twist import STRAIGHT, Twist, Tx

# The definition counts them among the administrators' commands, but a setting opens them to users.
_OPEN_BY_SETTING = {"expungevirtualmachine", "recovervirtualmachine", "getvirtualmachineuserdata"}


@dataclass(frozen=True, slots=True)
class Reply:
    """`status` None: the answer is lost on the way."""

    status: int | None
    body: dict[str, Any]


class Front:
    def __init__(self, datacenter: Datacenter) -> None:
        self.datacenter = datacenter
        self.keys: list[Keys] = furnish(datacenter)
        self.worker = Worker(datacenter)
        for work in downloads.unfinished(datacenter):
            self.worker.soon(work)

    def close(self) -> None:
        self.worker.close()

    def ask(self, raw: Mapping[str, str], *, origin: str, post: bool) -> Reply:
        """One request, whatever comes of it."""
        asked = {name.lower(): value for name, value in raw.items()}
        command = commands().get(asked.get("command", "").lower())
        caller = None
        try:
            caller = self._caller(raw, asked)
            command, desk = _desk(command, asked, caller)
            return self._bent(command, desk, caller, asked, origin, post)
        except ApiError as error:
            return _refused(error, command, caller)
        except SandboxError as error:
            return _refused(translate(error), command, caller)
        except Exception as error:
            # as the vendor's server does: whatever goes wrong inside is an answer, not a broken connection
            return _refused(ApiError(INTERNAL, f"{type(error).__name__}: {error}"), command, caller)

    def _caller(self, raw: Mapping[str, str], asked: Mapping[str, str]) -> Caller:
        for keys in self.keys:
            if keys.api_key == asked.get("apikey"):
                signature.verify(raw, keys.secret_key, self.datacenter.clock())
                return Caller(keys.account, keys.admin, keys.account)
        raise ApiError(UNAUTHORIZED, "unable to verify user credentials and/or request signature")

    def _bent(
        self, command: Command, desk: Desk, caller: Caller, asked: Mapping[str, str], origin: str, post: bool
    ) -> Reply:
        taken = self._faults(command, asked)
        for fault in taken:
            self._before(fault)
        modes = {fault.mode for fault in taken}
        if "timeout-before-commit" in modes:
            return Reply(None, {})
        late = max((fault.ms or 0 for fault in taken if fault.mode == "late-visibility"), default=0) / 1000
        twist = Twist(late_s=late, broken_vm="vm-error-state" in modes) if modes else STRAIGHT
        body = self._done(command, desk, caller, asked, origin, post, twist)
        return Reply(None if "timeout-after-commit" in modes else 200, body)

    def _done(
        self,
        command: Command,
        desk: Desk,
        caller: Caller,
        asked: Mapping[str, str],
        origin: str,
        post: bool,
        twist: Twist,
    ) -> dict[str, Any]:
        datacenter = self.datacenter
        job = None
        with datacenter.store.writing() if desk.writes else datacenter.store.reading() as db:
            strict = configuration.flag(db, "coterie.strict.parameters")
            params = parameters.read(command, asked, admin=caller.admin, strict=strict)
            tx = Tx(db, caller.account, datacenter.clock(), datacenter.ids, twist)
            call = Call(datacenter, tx, caller, command, params, origin, post)
            entities.check(call)
            if desk.answer:
                body = reply.answer(call, desk.answer(call))
            else:
                jobs.require_fresh(call, asked.get("customjobid"))
                job = jobs.add(call, str(desk.begin(call)) if desk.begin else "", asked.get("customjobid"))
                body = reply.job_answer(call, job)
        if job:
            self.worker.add(job)
        for work in call.after:
            self.worker.soon(work)
        return body

    def _faults(self, command: Command, asked: Mapping[str, str]) -> list[Fault]:
        with self.datacenter.store.reading() as db:
            if not calls.switches(db).faults:
                return []
        return faults.take(self.datacenter.store, command.name, lambda db: "\n".join(asked.values()))

    def _before(self, fault: Fault) -> None:
        if fault.mode == "latency":
            self.datacenter.sleep((fault.ms or 0) / 1000)
        elif fault.mode == "throttle":
            raise ApiError(THROTTLED, "The given user has reached his/her account api limit, please retry later.")
        elif fault.mode == "error":
            raise ApiError(INTERNAL, "an injected fault")


def _desk(command: Command | None, asked: Mapping[str, str], caller: Caller) -> tuple[Command, Desk]:
    wanted = asked.get("command", "")
    if command is None:
        raise ApiError(UNSUPPORTED, f"The given command:{wanted} does not exist or it is not available for user")
    if command.admin and not caller.admin and command.name.lower() not in _OPEN_BY_SETTING:
        raise ApiError(UNSUPPORTED, f"The given command:{wanted} does not exist or it is not available for user")
    if asked.get("response", "xml").lower() != "json":
        raise ApiError(UNSUPPORTED, "this server answers in JSON only: send response=json")
    desk = DESKS.get(command.name.lower())
    if desk is None:
        raise ApiError(UNSUPPORTED, f"{command.name} is not simulated")
    return command, desk


def _refused(error: ApiError, command: Command | None, caller: Caller | None) -> Reply:
    envelope = command.envelope if command else "errorresponse"
    return Reply(error.http, {envelope: error.wire(caller is None or caller.admin)})
