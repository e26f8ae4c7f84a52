"""How the datacenter's refusals read in EC2's codes."""

from __future__ import annotations

from coterie.sandbox import errors


class ApiError(Exception):
    """A refusal as EC2 writes it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


_MISSING = {
    "vm": "InvalidInstanceID.NotFound",
    "disk": "InvalidVolume.NotFound",
    "snapshot": "InvalidSnapshot.NotFound",
    "image": "InvalidAMIID.NotFound",
    "network": "InvalidSubnetID.NotFound",
    "security_group": "InvalidGroup.NotFound",
    "server_group": "InvalidPlacementGroup.Unknown",
}
NOT_FOUND = {  # by EC2's words for kinds, where ids are asked for
    "instance": _MISSING["vm"],
    "volume": _MISSING["disk"],
    "snapshot": _MISSING["snapshot"],
    "image": _MISSING["image"],
    "subnet": _MISSING["network"],
    "security-group": _MISSING["security_group"],
    "placement-group": _MISSING["server_group"],
    "network-interface": "InvalidNetworkInterfaceID.NotFound",
    "host": "InvalidHostID.NotFound",
}
_IN_USE = {"DeleteVolume": "VolumeInUse", "AttachVolume": "VolumeInUse", "ModifyVolume": "IncorrectState"}


def refusal(error: errors.SandboxError, action: str) -> ApiError:
    text = str(error)
    match error:
        case errors.NoSuch():
            return ApiError(_MISSING.get(error.kind, "InvalidParameterValue"), text)
        case errors.NoHost():
            return ApiError("InsufficientInstanceCapacity", f"{text} {error.why}", 500)
        case errors.OverQuota():
            return ApiError("InstanceLimitExceeded" if action == "RunInstances" else "VolumeLimitExceeded", text)
        case errors.AddressTaken():
            return ApiError("InvalidIPAddress.InUse", text)
        case errors.InUse():
            return ApiError(_IN_USE.get(action, "DependencyViolation"), text)
        case errors.Throttled():
            return ApiError("RequestLimitExceeded", "Request limit exceeded.", 503)
        case errors.Unavailable():
            return ApiError("Unavailable", text, 503)
        case errors.Denied():
            return ApiError("UnauthorizedOperation", text, 403)
        case errors.Unauthenticated():
            return ApiError("AuthFailure", text, 401)
    return ApiError("InvalidParameterValue" if isinstance(error, errors.BadRequest) else "UnsupportedOperation", text)
