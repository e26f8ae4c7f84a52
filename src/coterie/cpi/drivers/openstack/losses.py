"""Calls that got no answer, told apart: certainly not taken, or perhaps taken and the answer lost."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import AuthenticationFailed, CpiError, OutcomeUnknown, Unavailable
from coterie.cpi.drivers.openstack import sdk
from coterie.cpi.drivers.openstack.refusals import BROKEN, THROTTLED

_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


def lost(what: str, error: Exception, *, changes: bool) -> CpiError:
    """`changes`: whether a lost answer leaves something in doubt."""
    cause = error.__context__ or error
    if not _taken(cause):
        return unreachable(what, error)
    if not changes:
        return Unavailable(f"the answer to {what} was lost", why=_words(error), remedy="repeat")
    return OutcomeUnknown(
        f"the answer to {what} was lost", why=_words(error), remedy="look for what it may have made before repeating it"
    )


def unreachable(what: str, error: Exception) -> Unavailable:
    return Unavailable(
        f"OpenStack cannot be reached to {what}",
        why=_words(error),
        remedy="check the URLs in the catalogue, properties.auth_url, the network, the proxy and the TLS certificate",
    )


def login_failed(error: Exception) -> CpiError:
    """Keystone's own words name user or domain at most, never the secret."""
    exceptions = sdk.part("exceptions")
    status = error.http_status if isinstance(error, exceptions.HttpError) else None
    if isinstance(error, (exceptions.ConnectionError, exceptions.DiscoveryFailure)):
        return unreachable("log in", error)
    if status is not None and (status == THROTTLED or status >= BROKEN):
        return Unavailable("Keystone takes no logins now", why=_words(error), remedy="wait, then repeat")
    return AuthenticationFailed(
        "Keystone refused the credentials",
        why=_words(error),
        remedy="check user, project, domains and secret in the cloud's properties; application credentials can expire",
    )


def _taken(cause: BaseException) -> bool:
    http = sdk.requests().exceptions
    if isinstance(cause, http.ConnectTimeout) or _UNTRUSTED in str(cause):
        return False
    reason: Any = getattr(cause.args[0] if cause.args else None, "reason", None)
    return type(reason).__name__ not in (
        "NewConnectionError",
        "NameResolutionError",
        "ConnectTimeoutError",
        "ProxyError",
    )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
