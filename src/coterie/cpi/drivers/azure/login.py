"""Tokens of Microsoft Entra ID. azure-identity is imported for the first one only; one that is valid is kept for all
drivers of the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from coterie.cpi.contract import AuthenticationFailed, CpiError, Unavailable
from coterie.cpi.drivers.azure.properties import Settings
from coterie.cpi.kit.ca_file import CaFile
from coterie.cpi.kit.local_credentials import INSTANCE, require_source
from coterie.cpi.kit.tokens import Tokens

_REMEDY = "check tenant_id, client_id and its secret, the network and the clock of this machine"
# environment → authority, ARM, scope
CLOUDS: Mapping[str, tuple[str, str, str]] = {
    "public": (
        "https://login.microsoftonline.com",
        "https://management.azure.com",
        "https://management.azure.com/.default",
    ),
    "usgov": (
        "https://login.microsoftonline.us",
        "https://management.usgovcloudapi.net",
        "https://management.core.usgovcloudapi.net/.default",
    ),
    "china": (
        "https://login.chinacloudapi.cn",
        "https://management.chinacloudapi.cn",
        "https://management.chinacloudapi.cn/.default",
    ),
}
_tokens = Tokens()


class Login:
    def __init__(self, settings: Settings, credential_sources: Sequence[str] = ()) -> None:
        self._settings = settings
        self._credential_sources = credential_sources
        self._ca = CaFile(settings.ca_cert)
        authority, _, scope = CLOUDS[settings.environment]
        self._authority, self._scope = settings.authority or authority, settings.scope or scope
        who = (settings.tenant_id, settings.client_id, settings.client_secret, settings.certificate)
        self._key = (self._authority, self._scope, *who, settings.federated_token_file, settings.managed_identity)

    def token(self, refused: str | None = None) -> str:
        """A valid token, and never the one that was refused."""
        self._require_source()
        return _tokens.get(self._key, self._ask, refused)

    def _require_source(self) -> None:
        settings = self._settings
        certificate = settings.certificate if "-----BEGIN" not in (settings.certificate or "") else None
        sources = {
            "federated_token_file": settings.federated_token_file,
            "certificate": certificate,
            "managed_identity": INSTANCE if settings.managed_identity else None,
        }
        leading = {one: getattr(settings, one) for one in ("authority", "endpoint", "ca_cert", "proxy_url")}
        for name, wanted in sources.items():
            if wanted:
                require_source(self._credential_sources, name, wanted, leading)

    def _ask(self) -> tuple[str, float]:
        try:
            identity, exceptions = import_module("azure.identity"), import_module("azure.core.exceptions")
        except ImportError as error:
            raise CpiError(
                "azure-identity is not installed", why=str(error), remedy="install it: pip install 'coterie[azure]'"
            ) from None
        try:
            found = self._credential(identity).get_token(self._scope)
        except (exceptions.ServiceRequestError, exceptions.ServiceResponseError) as error:
            raise Unavailable("Entra ID cannot be reached", why=_words(error), remedy=_REMEDY) from None
        except (exceptions.AzureError, ValueError, OSError) as error:
            raise AuthenticationFailed("Entra ID gives no token", why=_words(error), remedy=_REMEDY) from None
        return str(found.token), float(found.expires_on)

    def _credential(self, identity: Any) -> Any:
        settings = self._settings
        options: dict[str, Any] = {"connection_timeout": settings.connect_timeout, "retry_total": 2}
        if self._ca.path:
            options["connection_verify"] = self._ca.path
        if settings.proxy_url:
            options["proxies"] = {"http": settings.proxy_url, "https": settings.proxy_url}
        if settings.managed_identity:
            return identity.ManagedIdentityCredential(client_id=settings.client_id, **options)
        options |= {"authority": self._authority, "disable_instance_discovery": settings.authority is not None}
        who = {"tenant_id": settings.tenant_id, "client_id": settings.client_id}
        if settings.federated_token_file:
            return identity.WorkloadIdentityCredential(**who, token_file_path=settings.federated_token_file, **options)
        if settings.certificate:
            given = settings.certificate
            raw = given.encode() if "-----BEGIN" in given else Path(given).read_bytes()
            return identity.CertificateCredential(**who, certificate_data=raw, **options)
        return identity.ClientSecretCredential(**who, client_secret=settings.client_secret, **options)


def _words(error: Exception) -> str:
    return str(error).partition("\n")[0][:500] or type(error).__name__
