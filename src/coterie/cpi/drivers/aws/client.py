"""Calls to EC2, EBS and STS: one attempt for whatever changes something, repeats for questions, pages, and the meaning
of each refusal. botocore is imported on the first call only; its own retries are off, since with two lost answers they
make three snapshots and report one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeVar

from coterie.cpi import contract
from coterie.cpi.contract import AuthenticationFailed, CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.aws.properties import Settings
from coterie.cpi.kit.ca_file import CaFile
from coterie.cpi.kit.calls import ClassifiedRefusal
from coterie.cpi.kit.http import AnswerLost, NotTaken, ask_patiently, call_error
from coterie.cpi.kit.local_credentials import require_source
from coterie.cpi.kit.permit import Permit
from coterie.cpi.kit.waits import Waits

R = TypeVar("R")
Row = Mapping[str, Any]
_REACH = "check properties.endpoint, the network, the proxy and the clock of this machine"
RIGHTS = "give the user or role the rights in docs/aws.md"
_QUOTA = "delete some, or have AWS raise the quota"
_ROOM = "use another availability zone or instance type, or try later"
_SOURCE = "check what access_key_id, profile or credentials_source and role_arn name"
# botocore's words for ways to get credentials
_MACHINE = ("iam-role",)
_ENVIRONMENT = ("env", "container-role", "assume-role-with-web-identity")
_PROFILE = (
    *("assume-role", "assume-role-with-web-identity", "sso", "login", "shared-credentials-file", "custom-process"),
    "config-file",
)
_BUSY = "repeat when the other change has ended"
_THROTTLES = (
    *("RequestLimitExceeded", "EC2ThrottledException", "ThrottlingException", "Throttling", "SlowDown"),
    *("RequestThrottledException", "TooManyRequestsException", "RequestThrottled", "ThrottledException"),
    *("PriorRequestNotComplete", "ConcurrentLimitExceededException"),
)
_QUOTAS = ("LimitExceeded", "LimitReached", "ServiceQuotaExceededException")
_BROKEN = ("InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable", "InternalServerException")
_CODES: Mapping[str, tuple[type[CpiError], str]] = {
    "InsufficientInstanceCapacity": (contract.NoPlacement, _ROOM),
    "InsufficientHostCapacity": (contract.NoPlacement, _ROOM),
    "InsufficientCapacityOnHost": (contract.NoPlacement, "use another dedicated host, or one with room for this type"),
    "InsufficientFreeAddressesInSubnet": (contract.NoPlacement, "use another subnet, or free addresses"),
    "Unsupported": (contract.NoPlacement, _ROOM),
    "InvalidInstanceID.NotFound": (contract.VMNotFound, "list what exists, and use one of those"),
    "InvalidVolume.NotFound": (contract.DiskNotFound, "list what exists, and use one of those"),
    "InvalidSnapshot.NotFound": (contract.DiskNotFound, "list what exists, and use one of those"),
    "InvalidAMIID.NotFound": (contract.StemcellNotFound, "upload the stemcell again"),
    "InvalidAMIID.Unavailable": (contract.StemcellNotFound, "upload the stemcell again"),
    "InvalidSubnetID.NotFound": (contract.NetworkNotFound, "name a subnet of this region"),
    "InvalidPlacementGroup.Unknown": (contract.GroupMissing, "deploy again so that the group is made anew"),
    "InvalidPlacementGroup.InUse": (contract.GroupInUse, "delete its members first"),
    "DependencyViolation": (contract.GroupInUse, "delete what uses it first"),
    "VolumeModificationRateExceeded": (contract.QuotaExceeded, "wait for the time that AWS names, then repeat"),
    "UnauthorizedOperation": (contract.PrivilegeMissing, RIGHTS),
    "AccessDenied": (contract.PrivilegeMissing, RIGHTS),
    "AccessDeniedException": (contract.PrivilegeMissing, RIGHTS),
    "AuthFailure": (AuthenticationFailed, "check the credentials and the clock of this machine"),
    "InvalidClientTokenId": (AuthenticationFailed, "check the credentials"),
    "UnrecognizedClientException": (AuthenticationFailed, "check the credentials"),
    "SignatureDoesNotMatch": (AuthenticationFailed, "check the secret and the clock of this machine"),
    "ExpiredToken": (AuthenticationFailed, "renew the credentials"),
    "ExpiredTokenException": (AuthenticationFailed, "renew the credentials"),
    "RequestExpired": (AuthenticationFailed, "correct the clock of this machine"),
    "OperationNotPermitted": (CpiError, "an operator protects it: remove the termination protection first"),
}


class Refusal(ClassifiedRefusal):
    """AWS's refusal by its code."""

    def __init__(self, what: str, aws_code: str, text: str, *, changes: bool, status: int = 400) -> None:
        self.aws_code = aws_code
        self.kind, remedy = meaning(aws_code, status, changes=changes)
        retryable = self.kind.retryable or aws_code.startswith("Incorrect")
        super().__init__(f"AWS refused to {what} ({aws_code})", why=text, remedy=remedy, retryable=retryable)

    def is_one(self, *codes: str) -> bool:
        return self.aws_code in codes

    @property
    def is_missing(self) -> bool:
        return self.aws_code.endswith((".NotFound", ".Unknown", ".Unavailable"))


def meaning(aws_code: str, status: int = 400, *, changes: bool = False) -> tuple[type[CpiError], str]:
    """An unknown code with a status of 500 or more is a failure of AWS, or of something between: what was asked for may
    have been done."""
    if aws_code in _CODES:
        return _CODES[aws_code]
    if aws_code in _THROTTLES:
        return Throttled, "repeat later"
    if aws_code.endswith(_QUOTAS):
        return contract.QuotaExceeded, _QUOTA
    if aws_code in _BROKEN or status >= 500:
        return (OutcomeUnknown if changes else Unavailable), "look for what it may have made before repeating it"
    if aws_code.endswith(".Malformed") or aws_code.startswith(("Invalid", "Missing", "Unknown")):
        return contract.InvalidCall, "correct what the message names"
    return CpiError, _BUSY if aws_code.startswith("Incorrect") else "see the message; repeat once it is mended"


@contextmanager
def look_before_failing(look: Callable[[], object]) -> Iterator[None]:
    """For a creation, which may be the repeat of a call whose answer was lost: its error says that nothing was made
    only where `look` finds nothing of the mark. Where `look` fails too, it speaks of this call alone."""
    try:
        yield
    except CpiError as error:
        kind = _kind_of(error)
        if issubclass(kind, OutcomeUnknown):
            raise
        try:
            found = look()
        except CpiError as trouble:
            if issubclass(kind, (Throttled, Unavailable)):
                raise error from trouble
            raise Unavailable(
                error.what,
                why=f"{error.why}; whether an earlier call under its mark made it cannot be seen: {trouble}",
                remedy=error.remedy,
                retryable=error.retryable,
            ) from error
        if not found:
            raise
        raise OutcomeUnknown(
            "an earlier call under this mark made something, and it could not be finished",
            why=str(error),
            remedy=error.remedy or "look for it by its mark",
            retryable=error.retryable,
        ) from error


def require_first(error: Refusal, find: Callable[[], R | None]) -> R:
    """After a refused creation. A token that was used with another request: then what that one made counts, if it can
    be seen."""
    if not error.is_one("IdempotentParameterMismatch"):
        raise error
    found = find()
    if found is not None:
        return found
    raise OutcomeUnknown(
        "the mark was used with another request, and what that made is not visible",
        why=error.why,
        remedy="look for it by its mark",
    ) from error


class Client:
    """Usable from any number of threads. `created` remembers what this process made, so that a NotFound within the
    settle time is taken for what it is: not visible yet."""

    def __init__(self, settings: Settings, permit: Permit) -> None:
        self.settings = settings
        self.permit = permit
        self.director_uuid = permit.director_uuid
        self.waits = Waits(settings.state_timeout, settings.poll_s)
        self._opening = threading.Lock()
        self._session: Any = None
        self._clients: dict[str, Any] = {}
        self._ca = CaFile(settings.ca_cert)
        self._created: dict[str, float] = {}

    def ask(self, what: str, operation: str, service: str = "ec2", **parameters: Any) -> Row:
        """The answer to a question, repeated while AWS is busy or cannot be reached."""
        return ask_patiently(
            lambda: self._call(what, service, operation, parameters, changes=False),
            retries=self.settings.retries,
            first_rest_s=self.settings.poll_s / 4,
            rest_after=_rest_after,
        )

    def change(self, what: str, operation: str, service: str = "ec2", **parameters: Any) -> Row:
        """One attempt."""
        return self._call(what, service, operation, parameters, changes=True)

    def delete(self, what: str, operation: str, *also: str, **parameters: Any) -> bool:
        """One attempt; False where it is gone already, as AWS says by its usual codes, or by one of `also`."""
        try:
            self.change(f"delete {what}", operation, **parameters)
        except Refusal as error:
            if not error.is_missing and not error.is_one(*also):
                raise
            return False
        return True

    def delete_when_free(
        self,
        what: str,
        operation: str,
        in_use: str,
        limit_s: float,
        list_users: Callable[[], Sequence[object]] = tuple,
        **parameters: Any,
    ) -> None:
        """AWS takes a thing for used, and says so by the code `in_use`, for a while after its last user went: that is
        waited out, as long as there is no user."""

        def attempt() -> bool | None:
            try:
                self.delete(what, operation, **parameters)
            except Refusal as error:
                if not error.is_one(in_use) or list_users():
                    raise
                return None
            return True

        self.waits.until(f"the deletion of {what}", attempt, limit_s)

    def note_created(self, cid: str) -> None:
        now = time.monotonic()
        settled = [one for one, made in list(self._created.items()) if now - made > self.settings.settle_s]
        for one in settled:
            self.forget_created(one)
        self._created[cid] = now

    def require_settled(self, cid: str) -> None:
        """Raise while nothing can be concluded from not seeing this object, which this process made."""
        made = self._created.get(cid)
        if made is not None and time.monotonic() - made < self.settings.settle_s:
            raise Unavailable(f"{cid} was made just now and is not visible yet", remedy="repeat", retryable=True)

    def forget_created(self, cid: str) -> None:
        self._created.pop(cid, None)

    def _call(self, what: str, service: str, operation: str, parameters: Row, *, changes: bool) -> Row:
        exceptions, method = _botocore("exceptions"), getattr(self._sign_in(service), operation)
        try:
            with self.permit.call(f"{service} {operation}", changes=changes) as call:
                try:
                    answer: Row = method(**parameters)
                except exceptions.ClientError as error:
                    if error.response["Error"]["Code"] in _THROTTLES:
                        call.slow_down()
                    raise
                return answer
        except exceptions.ClientError as error:
            raise _refusal(what, error, changes=changes) from None
        except exceptions.ParamValidationError as error:
            remedy = "correct what the message names"
            raise contract.InvalidCall(f"AWS takes no such request to {what}", why=str(error), remedy=remedy) from None
        except (exceptions.BotoCoreError, _botocore("parsers").ResponseParserError) as error:
            lost = NotTaken(str(error)) if _is_not_taken(error) else AnswerLost(str(error))
            raise call_error(lost, what=what, cloud="AWS", changes=changes, remedy=_REACH) from None

    def _sign_in(self, service: str) -> Any:
        """A client of botocore whose credentials are valid now. What fails here was never sent: getting credentials may
        need requests of its own."""
        exceptions = _botocore("exceptions")
        try:
            with self._opening:
                session = self._session or self._open()
                if session.get_credentials() is None:
                    raise AuthenticationFailed("there are no credentials", remedy=_SOURCE)
                self._session = session
                if service not in self._clients:
                    self._clients[service] = session.create_client(service, **self._options())
            session.get_credentials().get_frozen_credentials()
            return self._clients[service]
        except exceptions.ClientError as error:
            raise _refusal("get credentials", error, changes=False) from None
        except exceptions.BotoCoreError as error:
            if isinstance(error, (exceptions.HTTPClientError, exceptions.ConnectionError)):
                raise call_error(
                    NotTaken(str(error)), what="get credentials", cloud="AWS", changes=False, remedy=_REACH
                ) from None
            raise AuthenticationFailed("there are no credentials", why=str(error), remedy=_SOURCE) from None

    def _open(self) -> Any:
        """With the credentials that the properties name, and no others: a profile without any would otherwise be given
        those of this machine."""
        settings = self.settings
        if not settings.access_key_id:
            name = "profile" if settings.profile else "credentials_source"
            local = f"profile:{settings.profile}" if settings.profile else str(settings.credentials_source)
            leading = {one: getattr(settings, one) for one in ("endpoint", "ca_cert", "proxy_url")}
            require_source(self.permit.credential_sources, name, local, leading)
        session = _botocore("session").Session(profile=settings.profile)
        session.register_component("data_loader", _loader())
        if settings.access_key_id:
            session.set_credentials(settings.access_key_id, settings.secret_access_key, settings.session_token)
        else:
            resolver, source = session.get_component("credential_provider"), settings.credentials_source
            wanted = {"environment": _ENVIRONMENT, "instance": _MACHINE}.get(source or "", _PROFILE)
            resolver.providers = [one for one in resolver.providers if one.METHOD in wanted]
        return _assume_role(session, settings, self._options()) if settings.role_arn else session

    def _options(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "region_name": settings.region,
            "endpoint_url": settings.endpoint,
            "verify": self._ca.path,
            "config": _botocore("config").Config(
                retries={"total_max_attempts": 1},
                connect_timeout=settings.connect_timeout,
                read_timeout=settings.request_timeout,
                max_pool_connections=settings.max_parallel_calls,
                proxies={"http": settings.proxy_url, "https": settings.proxy_url} if settings.proxy_url else None,
                user_agent_extra="coterie",
                ignore_configured_endpoint_urls=True,
            ),
        }


def _assume_role(session: Any, settings: Settings, options: Mapping[str, Any]) -> Any:
    credentials, extra = _botocore("credentials"), {"ExternalId": settings.external_id}
    fetcher = credentials.AssumeRoleCredentialFetcher(
        client_creator=partial(session.create_client, **options),
        source_credentials=session.get_credentials(),
        role_arn=settings.role_arn,
        extra_args={key: value for key, value in extra.items() if value},
    )
    assumed = _botocore("session").Session()
    assumed.register_component("data_loader", _loader())
    assumed._credentials = credentials.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    return assumed


def _refusal(what: str, error: Any, *, changes: bool) -> Refusal:
    found, status = error.response["Error"], int(error.response["ResponseMetadata"].get("HTTPStatusCode") or 400)
    return Refusal(what, str(found["Code"]), str(found.get("Message") or ""), changes=changes, status=status)


def _is_not_taken(error: Exception) -> bool:
    """No connection was opened. TLS may also fail later, in the middle of an answer."""
    exceptions = _botocore("exceptions")
    never = (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyConnectionError)
    if isinstance(error, exceptions.SSLError):
        return "CERTIFICATE_VERIFY_FAILED" in str(error)
    return isinstance(error, never)


@cache
def _loader() -> Any:
    """One for the process: it remembers what it has read, and EC2's definition is ten megabytes."""
    return _botocore("session").Session().get_component("data_loader")


def _rest_after(error: Exception, usual: float) -> float | None:
    return usual if issubclass(_kind_of(error), (Throttled, Unavailable)) else None


def _kind_of(error: Exception) -> type[Exception]:
    return error.kind if isinstance(error, Refusal) else type(error)


def _botocore(name: str) -> Any:
    """`_botocore("session")` is the module botocore.session."""
    try:
        return import_module(f"botocore.{name}")
    except ImportError as error:
        raise CpiError(
            "botocore is not installed", why=str(error), remedy="install it: pip install 'coterie[aws]'"
        ) from None
