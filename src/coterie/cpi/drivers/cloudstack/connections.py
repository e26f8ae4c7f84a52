"""Opens HTTP connections to the cloud: with trust in the CA of the settings, and through their proxy."""

from __future__ import annotations

import http.client
import ssl
from urllib.parse import SplitResult

from coterie.cpi.contract import CpiError
from coterie.cpi.drivers.cloudstack.properties import Settings


def connection_to(where: SplitResult, settings: Settings) -> http.client.HTTPConnection:
    """Not connected yet."""
    proxy = settings.proxy
    host, port = str(where.hostname), where.port
    target = (proxy.host, proxy.port) if proxy else (host, port)
    made: http.client.HTTPConnection
    if where.scheme == "https":
        made = http.client.HTTPSConnection(*target, timeout=settings.request_timeout, context=trust(settings))
    else:
        made = http.client.HTTPConnection(*target, timeout=settings.request_timeout)
    if proxy:
        made.set_tunnel(host, port, proxy.headers())
    return made


def trust(settings: Settings) -> ssl.SSLContext:
    pem = settings.ca_cert
    try:
        if pem and "-----BEGIN" in pem:
            return ssl.create_default_context(cadata=pem)
        return ssl.create_default_context(cafile=pem or None)
    except (OSError, ssl.SSLError) as error:
        raise CpiError("properties.ca_cert cannot be read", why=str(error), remedy="give a PEM text or file") from error
