"""How Compute Engine refuses, at once and in operations, and how the datacenter's refusals read in its words."""

from __future__ import annotations

from typing import Any

from coterie.sandbox import errors


class ApiError(Exception):
    """`reason`: the word of an answer; `code`: that of an operation which failed. `retry_after`: in its header."""

    def __init__(
        self, status: int, reason: str, message: str, code: str = "", details: list[Any] | None = None
    ) -> None:
        super().__init__(f"{reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.code = code or "".join(f"_{one}" if one.isupper() else one.upper() for one in reason)
        self.details = details

    def body(self) -> dict[str, Any]:
        inner = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.status, "message": self.message, "errors": [inner]}}

    def in_operation(self) -> dict[str, Any]:
        inner: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            inner["errorDetails"] = self.details
        return {"errors": [inner]}


def not_found(path: str) -> ApiError:
    return ApiError(404, "notFound", f"The resource '{path}' was not found", "RESOURCE_NOT_FOUND")


def already_exists(path: str) -> ApiError:
    return ApiError(409, "alreadyExists", f"The resource '{path}' already exists", "RESOURCE_ALREADY_EXISTS")


def in_use(path: str, user: str) -> ApiError:
    noun = path.split("/")[-2].rstrip("s")
    text = f"The {noun} resource '{path}' is already being used by '{user}'"
    return ApiError(400, "resourceInUseByAnotherResource", text, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE")


def invalid(text: str) -> ApiError:
    return ApiError(400, "invalid", text, "INVALID_FIELD_VALUE")


def stale() -> ApiError:
    return ApiError(412, "conditionNotMet", "Supplied fingerprint does not match current metadata fingerprint.")


def over_quota(metric: str, limit: float, region: str) -> ApiError:
    name, text = f"{metric.replace('_', '-')}-per-project-region", f"Quota '{metric}' exceeded.  Limit: {limit}"
    info = {"metricName": f"compute.googleapis.com/{metric.lower()}", "limitName": name, "limit": limit}
    details = [{"quotaInfo": {**info, "dimensions": {"region": region}}}]
    return ApiError(403, "quotaExceeded", f"{text} in region {region}.", "QUOTA_EXCEEDED", details)


def translate(error: errors.SandboxError, region: str) -> ApiError:
    text = str(error)
    match error:
        case errors.NoHost():
            words = "does not have enough resources available to fulfill the request"
            return ApiError(503, "backendError", f"The zone {words}. {error.why}", "ZONE_RESOURCE_POOL_EXHAUSTED")
        case errors.OverQuota():
            metric = {"cpu": "CPUS", "instances": "INSTANCES"}.get(str(error.details.get("resource")), "INSTANCES")
            return over_quota(metric, float(error.details.get("limit") or 0), region)
        case errors.AddressTaken():
            return ApiError(400, "invalid", text, "IP_IN_USE_BY_ANOTHER_RESOURCE")
        case errors.Throttled():
            return ApiError(403, "rateLimitExceeded", "Rate Limit Exceeded")
        case errors.Unavailable():
            return ApiError(503, "backendError", text)
        case errors.Denied():
            return ApiError(403, "forbidden", text)
        case errors.BadRequest():
            return invalid(text)
    return ApiError(500, "internalError", text, "INTERNAL_ERROR")
