"""Whether a storage VM would fetch a template from a URL: it resolves, is not this machine, and ends as its format."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.refusals import refuse

FORMATS = {"QCOW2": ("qcow2",), "RAW": ("raw", "img"), "VHD": ("vhd",), "VHDX": ("vhdx",), "OVA": ("ova",)}
EXTRACTS = "/userdata/"  # where extracted templates are fetched from
_PACKED = ("", ".gz", ".bz2", ".zip")


def check_url(call: Call, url: str) -> None:
    where = urlsplit(url)
    if where.scheme not in ("http", "https", "ftp") or not where.hostname:
        raise refuse(f"Unsupported scheme for url: {url}")
    form = str(call.params["format"]).upper()
    endings = [f".{ending}{packed}" for ending in FORMATS.get(form, ()) for packed in _PACKED]
    if not where.path.lower().endswith(tuple(endings)):
        raise refuse(f"Please specify a valid {form.lower()}: the url ends otherwise")
    if not url.startswith(call.origin + EXTRACTS):
        _require_elsewhere(call, where.hostname)


def _require_elsewhere(call: Call, host: str) -> None:
    """The cloud's own storage VMs may fetch from each other; any other URL must be outside the cloud."""
    try:
        address = ipaddress.ip_address(socket.gethostbyname(host))
    except OSError:
        raise refuse(f"Unable to resolve {host}") from None
    if address.is_link_local or (address.is_loopback and not call.flag("coterie.loopback.urls")):
        raise refuse("Illegal host specified in url")
