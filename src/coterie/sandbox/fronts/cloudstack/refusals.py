"""What the API answers when it refuses: status, inner code and text, and the datacenter's refusals as such answers."""

from __future__ import annotations

from coterie.errors import CoterieError
from coterie.sandbox import errors as cloud
from coterie.sandbox.fronts.cloudstack.definition import inner_code

UNAUTHORIZED, THROTTLED, MALFORMED, PARAMETER, UNSUPPORTED = 401, 429, 430, 431, 432
INTERNAL, PERMISSION, LIMIT, CAPACITY, UNAVAILABLE, ALLOCATION, IN_USE, CONFLICT = (
    530,
    531,
    532,
    533,
    534,
    535,
    536,
    537,
)
_INNER = {
    UNAUTHORIZED: "CloudAuthenticationException",
    THROTTLED: "RequestLimitException",
    MALFORMED: "InvalidParameterValueException",
    PARAMETER: "InvalidParameterValueException",
    UNSUPPORTED: "UnavailableCommandException",
    INTERNAL: "CloudRuntimeException",
    PERMISSION: "PermissionDeniedException",
    LIMIT: "AccountLimitException",
    CAPACITY: "InsufficientCapacityException",
    UNAVAILABLE: "ResourceUnavailableException",
    ALLOCATION: "ResourceAllocationException",
    IN_USE: "ResourceInUseException",
    CONFLICT: "NetworkRuleConflictException",
}
_GENERIC = {
    INTERNAL: "Internal error executing command, please contact your administrator",
    CAPACITY: "Insufficient capacity",
    UNAVAILABLE: "Resource unavailable, please contact your administrator",
}


class ApiError(CoterieError):
    """One refusal on the wire."""

    code = "cloudstack"

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text, remedy="see errortext")
        self.http = status
        self.text = text

    def wire(self, admin: bool = True) -> dict[str, object]:
        """A caller that is no administrator gets a text without details of the datacenter."""
        text = self.text if admin else _GENERIC.get(self.http, self.text)
        return {
            "uuidList": [],
            "errorcode": self.http,
            "cserrorcode": inner_code(_INNER.get(self.http, "ServerApiException")),
            "errortext": text,
        }


def refuse(text: str) -> ApiError:
    """The commonest refusal: a parameter is wrong."""
    return ApiError(PARAMETER, text)


_STATUS: dict[type[cloud.SandboxError], int] = {
    cloud.NoSuch: PARAMETER,
    cloud.BadRequest: PARAMETER,
    cloud.OverQuota: ALLOCATION,
    cloud.NoHost: CAPACITY,
    cloud.AddressTaken: CAPACITY,
    cloud.InUse: IN_USE,
    cloud.Denied: PERMISSION,
    cloud.Unauthenticated: UNAUTHORIZED,
    cloud.Throttled: THROTTLED,
    cloud.Unavailable: UNAVAILABLE,
}


def translate(error: cloud.SandboxError) -> ApiError:
    return ApiError(_STATUS.get(type(error), INTERNAL), f"{error}")
