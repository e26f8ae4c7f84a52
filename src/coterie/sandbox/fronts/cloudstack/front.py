"""Answers one request: checks signature and form, applies faults, then runs the command in one transaction. Independent
of HTTP, apart from status numbers."""

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
from coterie.sandbox.fronts.cloudstack.command_table import HANDLERS, Handler
from coterie.sandbox.fronts.cloudstack.definition import Command, commands
from coterie.sandbox.fronts.cloudstack.faults import Reply, run_with_faults
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
        for work in downloads.list_unfinished(datacenter):
            self.worker.soon(work)

    def close(self) -> None:
        self.worker.close()

    def ask(self, raw: Mapping[str, str], *, origin: str, post: bool) -> Reply:
        """The reply to one request; a refusal is a reply too."""
        arguments = {_plain(name): value for name, value in raw.items()}
        command = commands().get(arguments.get("command", "").lower())
        caller = None
        try:
            caller = self._caller(raw, arguments)
            command, handler = _find_handler(command, arguments, caller)
            work = partial(self._run, command, handler, caller, arguments, origin, post)
            return run_with_faults(self.datacenter, command.name, arguments, work)
        except ApiError as error:
            return _refusal(error, command, caller)
        except SandboxError as error:
            return _refusal(translate(error), command, caller)
        except Exception as error:
            # as the vendor's server does: an internal error is an answer, not a broken connection
            return _refusal(ApiError(INTERNAL, f"{type(error).__name__}: {error}"), command, caller)

    def _caller(self, raw: Mapping[str, str], arguments: Mapping[str, str]) -> Caller:
        for keys in self.keys:
            if keys.api_key == arguments.get("apikey"):
                signature.verify(raw, keys.secret_key, self.datacenter.clock())
                return Caller(keys.account, keys.admin, keys.account)
        raise ApiError(UNAUTHORIZED, "unable to verify user credentials and/or request signature")

    def _run(
        self,
        command: Command,
        handler: Handler,
        caller: Caller,
        arguments: Mapping[str, str],
        origin: str,
        post: bool,
        twist: Twist,
    ) -> dict[str, Any]:
        datacenter = self.datacenter
        job = None
        with datacenter.store.writing() if handler.writes else datacenter.store.reading() as db:
            strict = configuration.flag(db, "coterie.strict.parameters")
            params = parameters.read(command, arguments, admin=caller.admin, strict=strict)
            tx = Tx(db, caller.account, datacenter.clock(), datacenter.ids, twist)
            call = Call(datacenter, tx, caller, command, params, origin, post)
            entities.check(call)
            if handler.answer:
                body = reply.answer(call, handler.answer(call))
            else:
                jobs.require_fresh(call, arguments.get("customjobid"))
                job = jobs.add(call, str(handler.begin(call)) if handler.begin else "", arguments.get("customjobid"))
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


def _find_handler(command: Command | None, arguments: Mapping[str, str], caller: Caller) -> tuple[Command, Handler]:
    handler = HANDLERS.get(command.name.lower()) if command else None
    if command is None or handler is None or not _open_to(command, caller):
        wanted = arguments.get("command", "")
        raise ApiError(UNSUPPORTED, f"The given command:{wanted} does not exist or it is not available for user")
    if arguments.get("response", "xml").lower() != "json":
        raise ApiError(UNSUPPORTED, "this server answers in JSON only: send response=json")
    return command, handler


def _open_to(command: Command, caller: Caller) -> bool:
    return caller.admin or not command.admin or command.name.lower() in _OPEN_BY_SETTING


def _refusal(error: ApiError, command: Command | None, caller: Caller | None) -> Reply:
    envelope = command.envelope if command else "errorresponse"
    return Reply(error.http, {envelope: error.wire(caller is None or caller.admin)})
