"""From credentials to the services: a session with Keystone, by password or application credential, and where each
service is. Credentials come from the properties, or from clouds.yaml, the file that OpenStack's own clients share.

Only this module imports keystoneauth1, on first use: a program that only opens the driver does not load it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from coterie.cpi.contract import AuthenticationFailed, CpiError, InvalidCall, Unavailable
from coterie.cpi.drivers.openstack.properties import LOGIN_TEXTS, Settings
from coterie.cpi.kit.ca_file import CaFile
from coterie.cpi.kit.http import NotTaken, call_error, tls_context
from coterie.cpi.kit.local_credentials import require_source
from coterie.slotted import fields, replace

Version = tuple[int, int]
REACH_REMEDY = "check the URLs in the catalogue, properties.auth_url, the network, the proxy and the TLS certificate"
_DOMAIN = "Default"
_CLOUDS_FILES = ("clouds.yaml", "~/.config/openstack/clouds.yaml", "/etc/openstack/clouds.yaml")
# service → its major version, and the microversions that this driver was written for (None: it has none)
_KNOWN: dict[str, tuple[str, tuple[Version, Version] | None]] = {
    "compute": ("2", ((2, 79), (2, 93))),
    "block-storage": ("3", ((3, 22), (3, 70))),
    "network": ("2", None),
    "image": ("2", None),
}
_HEADER = {"compute": "compute", "block-storage": "volume"}


def open_session(settings: Settings) -> Any:
    """A session of keystoneauth1 for complete settings; nothing is sent yet."""
    session = keystoneauth("session").Session(
        auth=_credentials(settings),
        session=_transport(settings),
        user_agent="coterie",
        timeout=settings.request_timeout,
    )
    session.verify, session.ca_file = _verify(settings)
    return session


def keystoneauth(name: str) -> Any:
    """`keystoneauth("session")` is the module keystoneauth1.session."""
    return _module(f"keystoneauth1.{name}")


def login_error(error: Exception) -> CpiError:
    """Keystone's own words name user or domain at most, never the secret."""
    exceptions = keystoneauth("exceptions")
    if isinstance(error, (exceptions.ConnectionError, exceptions.DiscoveryFailure)):
        return call_error(NotTaken(str(error)), what="log in", cloud="OpenStack", changes=False, remedy=REACH_REMEDY)
    status = error.http_status if isinstance(error, exceptions.HttpError) else None
    if status is not None and (status == 429 or status >= 500):
        return Unavailable("Keystone takes no logins now", why=str(error), remedy="wait, then repeat")
    return AuthenticationFailed(
        "Keystone refused the credentials",
        why=str(error) or type(error).__name__,
        remedy="check user, project, domains and secret in the cloud's properties; application credentials can expire",
    )


class Services:
    """Where each service is, and its API version: the newest microversion that the service and this driver know."""

    def __init__(self, settings: Settings, session: Any) -> None:
        self._settings = settings
        self._session = session
        self._found: dict[str, tuple[str, Version | None]] = {}
        self._regions: dict[str, str | None] = {}

    def region(self, service: str) -> str | None:
        """As the catalogue names it; None: it does not."""
        self._read(service)
        return self._regions[service]

    def url(self, service: str) -> str:
        return self._read(service)[0]

    def microversion(self, service: str) -> Version | None:
        return self._read(service)[1]

    def headers(self, service: str) -> dict[str, str]:
        version = self.microversion(service)
        return {"OpenStack-API-Version": f"{_HEADER[service]} {_version_text(version)}"} if version else {}

    def _read(self, service: str) -> tuple[str, Version | None]:
        if service not in self._found:
            self._found[service] = self._discover(service)
        return self._found[service]

    def _discover(self, service: str) -> tuple[str, Version | None]:
        major, known = _KNOWN[service]
        settings = self._settings
        data = self._session.auth.get_endpoint_data(
            self._session,
            service_type=service,
            interface=settings.interface,
            region_name=settings.region,
            endpoint_override=settings.endpoints.get(service),
            min_version=major,
            max_version=f"{major}.latest",
            discover_versions=True,
        )
        if data is None or not data.url:
            where = f" in region {settings.region}" if settings.region else ""
            raise CpiError(
                f"the catalogue has no {settings.interface} {service} service{where}",
                remedy=f"check properties.region and properties.interface, or give properties.endpoints.{service}",
            )
        self._regions[service] = data.region_name
        return str(data.url).rstrip("/"), _choose_version(service, data, known) if known else None


def complete_settings(settings: Settings, credential_sources: Sequence[str]) -> Settings:
    """The settings with what the named entry of clouds.yaml adds; what the properties say wins."""
    if settings.cloud is None:
        return settings
    path = _find_clouds_file(settings.clouds_file)
    names = ("auth_url", "endpoints", "ca_cert", "insecure", "proxy_url")
    leading = {name: getattr(settings, name) for name in names}
    require_source(credential_sources, "clouds_file" if settings.clouds_file else "cloud", str(path), leading)
    public, secret = (_read_entry(one, settings.cloud) for one in (path, path.with_name("secure.yaml")))
    if not public and not secret:
        raise InvalidCall(
            f"{path} has no cloud {settings.cloud!r}", remedy="name in properties.cloud one of its entries"
        )
    entry = {**public, **secret, "auth": {**(public.get("auth") or {}), **(secret.get("auth") or {})}}
    found = {key: value for key, value in _entry_settings(entry).items() if value is not None}
    unset = {one.name: one.default for one in fields(Settings)}
    return replace(settings, **{key: value for key, value in found.items() if getattr(settings, key) == unset[key]})


def _credentials(settings: Settings) -> Any:
    if not settings.auth_url:
        raise InvalidCall("Keystone's URL is not known", remedy="give properties.auth_url, or auth_url in clouds.yaml")
    v3 = keystoneauth("identity.v3")
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
    domain = _domain("user", settings.user_domain_id, settings.user_domain_name, settings)
    return {"username": settings.username, **domain}


def _project(settings: Settings) -> dict[str, str]:
    if not settings.project_name:
        return {}
    domain = _domain("project", settings.project_domain_id, settings.project_domain_name, settings)
    return {"project_name": settings.project_name, **domain}


def _domain(of: str, wanted: str | None, name: str | None, settings: Settings) -> dict[str, str]:
    if wanted:
        return {f"{of}_domain_id": wanted}
    return {f"{of}_domain_name": name or settings.domain or _DOMAIN}


def _transport(settings: Settings) -> Any:
    """An explicit proxy comes before the environment's, which requests would prefer."""
    transport = _module("requests").Session()
    if settings.proxy_url:
        transport.trust_env = False
        transport.proxies = {"http": settings.proxy_url, "https": settings.proxy_url}
    return transport


def _verify(settings: Settings) -> tuple[bool | str, Any]:
    """What requests calls `verify`, and the open file behind it, if there is one. Without a `ca_cert` it is the
    machine's store, as for all other requests, and not the one that comes with requests."""
    pem = settings.ca_cert
    if settings.insecure:
        return False, None
    if not pem:
        store = ssl.get_default_verify_paths()
        return store.cafile or store.capath or True, None
    tls_context(pem)
    file = CaFile(pem)
    return str(file.path), file  # the session keeps it


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise CpiError(
            "keystoneauth1 is not installed",
            why=str(error),
            remedy="install coterie with its extra: coterie[openstack]",
        ) from error


def _choose_version(service: str, data: Any, known: tuple[Version, Version]) -> Version:
    least, most = known
    newest = tuple(data.max_microversion or (0, 0))
    if newest < least:
        raise CpiError(
            f"this cloud's {service} service is too old",
            why=f"its newest version is {_version_text((newest[0], newest[1]))}",
            remedy=f"upgrade it to {_version_text(least)} or newer",
        )
    return min((newest[0], newest[1]), most)


def _version_text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _entry_settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    auth = entry.get("auth") or {}
    regions = entry.get("regions") or (None,)
    texts = {key: str(auth[key]) for key in LOGIN_TEXTS if auth.get(key) is not None}
    return {
        **texts,
        "auth_url": auth.get("auth_url"),
        "project_name": texts.get("project_name") or auth.get("tenant_name"),
        "region": entry.get("region_name") or regions[0],
        "interface": entry.get("interface"),
        "ca_cert": entry.get("cacert"),
        "insecure": True if entry.get("verify") is False else None,
    }


def _find_clouds_file(given: str | None) -> Path:
    places = [given] if given else [os.environ.get("OS_CLIENT_CONFIG_FILE"), *_CLOUDS_FILES]
    for place in places:
        if place and Path(place).expanduser().is_file():
            return Path(place).expanduser()
    raise CpiError(
        f"there is no clouds.yaml at {', '.join(str(one) for one in places if one)}",
        remedy="set properties.clouds_file to its path",
    )


def _read_entry(path: Path, name: str) -> Mapping[str, Any]:
    """An error does not repeat what is wrong in the file: it may be a secret."""
    if not path.is_file():
        return {}
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    except (YAMLError, OSError, ValueError) as error:
        raise CpiError(f"{path} cannot be read", why=type(error).__name__, remedy="make it valid YAML") from None
    clouds = document.get("clouds") if isinstance(document, Mapping) else None
    entry = clouds.get(name) if isinstance(clouds, Mapping) else None
    return entry if isinstance(entry, Mapping) else {}
