"""The door: who asks, is it signed, is it well-formed, is it bent by a fault; then the command itself, in one
transaction. Knows no HTTP beyond status numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.errors import SandboxError
from coterie.sandbox.fronts.cloudstack import (
    commands as _published,  # noqa: F401 # importing it publishes the commands
)
from coterie.sandbox.fronts.cloudstack import configuration, downloads, entities, jobs, parameters, reply, signature
from coterie.sandbox.fronts.cloudstack.call import Call, Caller
from coterie.sandbox.fronts.cloudstack.command_table import DESKS, Desk
from coterie.sandbox.fronts.cloudstack.definition import Command, commands
from coterie.sandbox.fronts.cloudstack.faults import Reply, bent
from coterie.sandbox.fronts.cloudstack.furnish import Keys, furnish
from coterie.sandbox.fronts.cloudstack.refusals import (
    INTERNAL,
    UNAUTHORIZED,
    UNSUPPORTED,
    ApiError,
    translate,
)
from coterie.sandbox.fronts.cloudstack.worker import Worker
from coterie.sandbox.twist import Twist, Tx

# The definition counts them among the administrators' commands, but a setting opens them to users.
_OPEN_BY_SETTING = {"expungevirtualmachine", "recovervirtualmachine", "getvirtualmachineuserdata"}


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
        asked = {_plain(name): value for name, value in raw.items()}
        command = commands().get(asked.get("command", "").lower())
        caller = None
        try:
            caller = self._caller(raw, asked)
            command, desk = _desk(command, asked, caller)
            work = partial(self._done, command, desk, caller, asked, origin, post)
            return bent(self.datacenter, command.name, asked, work)
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


def _plain(name: str) -> str:
    """The case of a parameter's name does not matter, that of a key inside a map does."""
    word, bracket, rest = name.partition("[")
    return word.lower() + bracket + rest


def _desk(command: Command | None, asked: Mapping[str, str], caller: Caller) -> tuple[Command, Desk]:
    desk = DESKS.get(command.name.lower()) if command else None
    if command is None or desk is None or not _open_to(command, caller):
        wanted = asked.get("command", "")
        raise ApiError(UNSUPPORTED, f"The given command:{wanted} does not exist or it is not available for user")
    if asked.get("response", "xml").lower() != "json":
        raise ApiError(UNSUPPORTED, "this server answers in JSON only: send response=json")
    return command, desk


def _open_to(command: Command, caller: Caller) -> bool:
    return caller.admin or not command.admin or command.name.lower() in _OPEN_BY_SETTING


def _refused(error: ApiError, command: Command | None, caller: Caller | None) -> Reply:
    envelope = command.envelope if command else "errorresponse"
    return Reply(error.http, {envelope: error.wire(caller is None or caller.admin)})
