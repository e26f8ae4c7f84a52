"""How Azure Resource Manager refuses, and how the datacenter's refusals read in its codes."""

from __future__ import annotations

from typing import Any

from coterie.sandbox import errors


class ApiError(Exception):
    """A refusal as ARM writes it."""

    def __init__(self, status: int, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message}


def not_found(type_: str, name: str, group: str) -> ApiError:
    text = f"The Resource '{type_}/{name}' under resource group '{group}' was not found. "
    return ApiError(
        404, "ResourceNotFound", text + "For more details please go to https://aka.ms/ARMResourceNotFoundFix"
    )


def bad_reference(wanted: str) -> ApiError:
    """Something that a body names is not there."""
    return ApiError(400, "InvalidResourceReference", f"Resource {wanted} referenced by the request was not found.")


def translate(error: errors.SandboxError) -> ApiError:
    text = str(error)
    match error:
        case errors.NoSuch():
            return ApiError(404, "NotFound", text)
        case errors.NoHost():
            words = "Allocation failed. We do not have sufficient capacity for the requested VM size in this region."
            return ApiError(409, "AllocationFailed", f"{words} {error.why}")
        case errors.OverQuota():
            return ApiError(409, "OperationNotAllowed", f"Operation results in exceeding approved quota: {text}")
        case errors.AddressTaken():
            return ApiError(400, "PrivateIPAddressIsAllocated", text)
        case errors.InUse():
            return ApiError(409, "OperationNotAllowed", text)
        case errors.Throttled():
            after = float(error.details.get("retry_after", 1))
            return ApiError(429, "TooManyRequests", "The request is being throttled.", after)
        case errors.Unavailable():
            return ApiError(503, "ServerTimeout", text)
        case errors.Denied():
            return ApiError(403, "AuthorizationFailed", text)
        case errors.Unauthenticated():
            return ApiError(401, "InvalidAuthenticationToken", text)
        case errors.BadRequest():
            return ApiError(400, "InvalidParameter", text)
    return ApiError(409, "InternalExecutionError", text)
