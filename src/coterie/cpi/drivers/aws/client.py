"""Calls to EC2, EBS and STS: one attempt for whatever changes something, repeats for questions, pages, and the meaning
of each refusal. botocore is imported on the first call only; its own retries are off, since with two lost answers they
make three snapshots and report one."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from coterie.cpi import contract
from coterie.cpi.contract import AuthenticationFailed, CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.aws.properties import Settings
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.http import AnswerLost, NotTaken, ask_patiently, call_error

Row = Mapping[str, Any]
_REACH = "check properties.endpoint, the network, the proxy and the clock of this machine"
_RIGHTS = "give the user or role the rights in docs/aws.md"
_QUOTA = "delete some, or have AWS raise the quota"
_ROOM = "use another availability zone or instance type, or try later"
_BUSY = "repeat when the other change has ended"
_THROTTLES = ("RequestLimitExceeded", "EC2ThrottledException", "ThrottlingException", "Throttling", "SlowDown")
_QUOTAS = ("LimitExceeded", "LimitReached", "ServiceQuotaExceededException", "VolumeModificationRateExceeded")
_BROKEN = ("InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable", "InternalServerException")
_CODES: Mapping[str, tuple[type[CpiError], str]] = {
    "InsufficientInstanceCapacity": (contract.NoPlacement, _ROOM),
    "InsufficientHostCapacity": (contract.NoPlacement, _ROOM),
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
    "UnauthorizedOperation": (contract.PrivilegeMissing, _RIGHTS),
    "AccessDenied": (contract.PrivilegeMissing, _RIGHTS),
    "AccessDeniedException": (contract.PrivilegeMissing, _RIGHTS),
    "AuthFailure": (AuthenticationFailed, "check the credentials and the clock of this machine"),
    "InvalidClientTokenId": (AuthenticationFailed, "check the credentials"),
    "ExpiredToken": (AuthenticationFailed, "renew the credentials"),
    "RequestExpired": (AuthenticationFailed, "correct the clock of this machine"),
    "OperationNotPermitted": (CpiError, "an operator protects it: remove the termination protection first"),
}


class Refusal(CpiError):
    """AWS's refusal by its code. Inside the driver only: `translate` gives it its class of the contract."""

    def __init__(self, what: str, aws_code: str, text: str, *, changes: bool) -> None:
        self.aws_code = aws_code
        self.kind, remedy = _meaning(aws_code, changes)
        retryable = self.kind.retryable or aws_code.startswith("Incorrect")
        super().__init__(f"AWS refused to {what} ({aws_code})", why=text, remedy=remedy, retryable=retryable)

    def is_one(self, *codes: str) -> bool:
        return self.aws_code in codes

    @property
    def is_missing(self) -> bool:
        return self.aws_code.endswith((".NotFound", ".Unknown", ".Unavailable"))


def translate(error: Refusal) -> CpiError:
    return error.kind(error.what, why=error.why, remedy=error.remedy, retryable=error.retryable, details=error.details)


def _meaning(aws_code: str, changes: bool) -> tuple[type[CpiError], str]:
    if aws_code in _CODES:
        return _CODES[aws_code]
    if aws_code in _THROTTLES:
        return Throttled, "repeat later"
    if aws_code.endswith(_QUOTAS):
        return contract.QuotaExceeded, _QUOTA
    if aws_code in _BROKEN:
        return (OutcomeUnknown if changes else Unavailable), "look for what it may have made before repeating it"
    if aws_code.endswith(".Malformed") or aws_code.startswith(("Invalid", "Missing", "Unknown")):
        return contract.InvalidCall, "correct what the message names"
    return CpiError, _BUSY if aws_code.startswith("Incorrect") else "see the message; repeat once it is mended"


class Client:
    """Usable from any number of threads. `created` remembers what this process made, so that a NotFound within the
    settle time is taken for what it is: not visible yet."""

    def __init__(
        self, settings: Settings, director_uuid: str, limit: CallLimit, require_lease: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.director_uuid = director_uuid
        self.limit = limit
        self._require_lease = require_lease
        self._clients: dict[str, Any] = {}
        self._opening = threading.Lock()
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

    def page(self, what: str, operation: str, key: str, token: str | None, **parameters: Any) -> tuple[list[Row], str]:
        """One page and the token of the next one; a page may be short, or empty with a token."""
        given = {"NextToken": token} if token else {}
        answer = self.ask(what, operation, MaxResults=self.settings.page_size, **given, **parameters)
        return list(answer.get(key) or ()), str(answer.get("NextToken") or "")

    def list_all(self, what: str, operation: str, key: str, **parameters: Any) -> Iterator[Row]:
        token = None
        while True:
            rows, token = self.page(what, operation, key, token, **parameters)
            yield from rows
            if not token:
                return

    def note_created(self, cid: str) -> None:
        self._created[cid] = time.monotonic()

    def require_settled(self, cid: str) -> None:
        """Raise while nothing can be concluded from not seeing this object, which this process made."""
        made = self._created.get(cid)
        if made is not None and time.monotonic() - made < self.settings.settle_s:
            raise Unavailable(f"{cid} was made just now and is not visible yet", remedy="repeat", retryable=True)

    def forget_created(self, cid: str) -> None:
        self._created.pop(cid, None)

    def _call(self, what: str, service: str, operation: str, parameters: Row, *, changes: bool) -> Row:
        exceptions = _botocore("exceptions")
        try:
            with self.limit.pace(f"{service} {operation}") as call:
                method = getattr(self._client(service), operation)
                if changes:
                    self._require_lease()
                try:
                    answer: Row = method(**parameters)
                except exceptions.ClientError as error:
                    if error.response["Error"]["Code"] in _THROTTLES:
                        call.slow_down()
                    raise
                return answer
        except exceptions.ClientError as error:
            found = error.response["Error"]
            raise Refusal(what, str(found["Code"]), str(found.get("Message") or ""), changes=changes) from None
        except exceptions.ParamValidationError as error:
            raise contract.InvalidCall(f"AWS takes no such request to {what}", why=str(error), remedy=_REACH) from None
        except (exceptions.NoCredentialsError, exceptions.CredentialRetrievalError) as error:
            raise AuthenticationFailed("there are no credentials", why=str(error), remedy=_REACH) from None
        except (exceptions.BotoCoreError, _botocore("parsers").ResponseParserError) as error:
            lost = NotTaken(str(error)) if isinstance(error, _not_taken()) else AnswerLost(str(error))
            raise call_error(lost, what=what, cloud="AWS", changes=changes, remedy=_REACH) from None

    def _client(self, service: str) -> Any:
        with self._opening:
            if service not in self._clients:
                self._clients[service] = self._session().create_client(service, **self._options())
            return self._clients[service]

    def _session(self) -> Any:
        """With the credentials that the properties name, and no others."""
        settings = self.settings
        session = _botocore("session").Session(profile=settings.profile)
        if settings.access_key_id:
            session.set_credentials(settings.access_key_id, settings.secret_access_key, settings.session_token)
        elif settings.credentials_source:
            wanted = "env" if settings.credentials_source == "environment" else "iam-role"
            resolver = session.get_component("credential_provider")
            resolver.providers = [one for one in resolver.providers if wanted == one.METHOD]
        return _assume_role(session, settings) if settings.role_arn else session

    def _options(self) -> dict[str, Any]:
        settings = self.settings
        proxies = {"http": settings.proxy_url, "https": settings.proxy_url} if settings.proxy_url else None
        return {
            "region_name": settings.region,
            "endpoint_url": settings.endpoint,
            "verify": _certificates(settings.ca_cert),
            "config": _botocore("config").Config(
                retries={"total_max_attempts": 1},
                connect_timeout=settings.connect_timeout,
                read_timeout=settings.request_timeout,
                max_pool_connections=settings.max_parallel_calls,
                proxies=proxies,
                user_agent_extra="coterie",
                parameter_validation=True,
            ),
        }


def _assume_role(session: Any, settings: Settings) -> Any:
    credentials, extra = _botocore("credentials"), {"ExternalId": settings.external_id}
    fetcher = credentials.AssumeRoleCredentialFetcher(
        client_creator=session.create_client,
        source_credentials=session.get_credentials(),
        role_arn=settings.role_arn,
        extra_args={key: value for key, value in extra.items() if value},
    )
    assumed = _botocore("session").Session()
    assumed._credentials = credentials.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    return assumed


def _certificates(ca_cert: str | None) -> str | None:
    """botocore takes a path only."""
    if ca_cert and "-----BEGIN" in ca_cert:
        with tempfile.NamedTemporaryFile("w", suffix=".pem", prefix="coterie-ca-", delete=False) as file:
            file.write(ca_cert)
        return file.name
    return ca_cert


def _not_taken() -> tuple[type[Exception], ...]:
    exceptions = _botocore("exceptions")
    return (
        exceptions.EndpointConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.ProxyConnectionError,
        exceptions.SSLError,
    )


def _rest_after(error: Exception, usual: float) -> float | None:
    if isinstance(error, Refusal):
        return usual if error.kind in (Throttled, Unavailable) else None
    return usual if isinstance(error, (Unavailable, Throttled)) else None


def _botocore(name: str) -> Any:
    """`_botocore("session")` is the module botocore.session."""
    try:
        return import_module(f"botocore.{name}")
    except ImportError as error:
        raise CpiError(
            "botocore is not installed", why=str(error), remedy="install it: pip install 'coterie[aws]'"
        ) from None


def filters(**wanted: Sequence[str] | str) -> list[dict[str, Any]]:
    """`filters(instance_id="i-1")`; a name with a colon is written with two underscores: `tag__coterie_director`."""
    return [
        {
            "Name": name.replace("__", ":").replace("_", "-"),
            "Values": [value] if isinstance(value, str) else list(value),
        }
        for name, value in wanted.items()
    ]
