"""Logs in to Keystone: by password or application credential, with the CA and the proxy of the settings."""

from __future__ import annotations

import ssl
import tempfile
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall
from coterie.cpi.drivers.openstack import sdk
from coterie.cpi.drivers.openstack.clouds_file import completed
from coterie.cpi.drivers.openstack.properties import Settings

_DOMAIN = "Default"
AGENT = "coterie"


def opened(given: Settings) -> tuple[Settings, Any]:
    """The settings with those of clouds.yaml, and a session of keystoneauth1; nothing is asked yet."""
    settings = completed(given)
    verify, kept = _trust(settings)
    session = sdk.part("session").Session(
        auth=_plugin(settings),
        session=_connections(settings),
        verify=verify,
        user_agent=AGENT,
        timeout=settings.request_timeout,
    )
    session.kept = kept
    return settings, session


def _plugin(settings: Settings) -> Any:
    if not settings.auth_url:
        raise InvalidCall(
            "nobody says where Keystone is", remedy="give properties.auth_url, or auth_url in clouds.yaml"
        )
    v3 = sdk.part("identity.v3")
    if settings.application_credential_secret:
        return v3.ApplicationCredential(
            settings.auth_url,
            settings.application_credential_secret,
            application_credential_id=settings.application_credential_id,
            application_credential_name=settings.application_credential_name,
            **_user(settings),
        )
    if not settings.password or not (settings.username or settings.user_id):
        raise InvalidCall(
            "the credentials are not complete",
            remedy="give username, password and project_name, or application_credential_id and its secret",
        )
    if not (settings.project_name or settings.project_id):
        raise InvalidCall("properties.project_name is missing", remedy="name the project, or give its project_id")
    return v3.Password(
        settings.auth_url,
        password=settings.password,
        project_id=settings.project_id,
        **_user(settings),
        **_project(settings),
    )


def _user(settings: Settings) -> dict[str, str]:
    if settings.user_id:
        return {"user_id": settings.user_id}
    if not settings.username:
        return {}
    return {
        "username": settings.username,
        **_domain("user", settings.user_domain_id, settings.user_domain_name, settings),
    }


def _project(settings: Settings) -> dict[str, str]:
    if not settings.project_name:
        return {}
    domain = _domain("project", settings.project_domain_id, settings.project_domain_name, settings)
    return {"project_name": settings.project_name, **domain}


def _domain(whose: str, wanted: str | None, name: str | None, settings: Settings) -> dict[str, str]:
    if wanted:
        return {f"{whose}_domain_id": wanted}
    return {f"{whose}_domain_name": name or settings.domain or _DOMAIN}


def _connections(settings: Settings) -> Any:
    """A pool of connections for all threads; an explicit proxy comes before the environment's."""
    requests = sdk.requests()
    made = requests.Session()
    for scheme in ("http://", "https://"):
        adapter = requests.adapters.HTTPAdapter(pool_connections=8, pool_maxsize=settings.max_parallel_calls)
        made.mount(scheme, adapter)
    if settings.proxy_url:
        made.proxies = {"http": settings.proxy_url, "https": settings.proxy_url}
    return made


def _trust(settings: Settings) -> tuple[bool | str, Any]:
    """What requests calls `verify`, and a file that must live as long as it is used."""
    pem = settings.ca_cert
    if settings.insecure or not pem:
        return not settings.insecure, None
    try:
        if "-----BEGIN" not in pem:
            ssl.create_default_context(cafile=pem)
            return pem, None
        ssl.create_default_context(cadata=pem)
        kept = tempfile.NamedTemporaryFile("w", prefix="coterie-ca-", suffix=".pem")  # noqa: SIM115 # lives on
        kept.write(pem)
        kept.flush()
    except (OSError, ssl.SSLError) as error:
        raise CpiError("properties.ca_cert cannot be read", why=str(error), remedy="give a PEM text or file") from error
    return kept.name, kept
