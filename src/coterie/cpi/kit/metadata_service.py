"""What a cloud's metadata service answers to a machine inside it."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cpi.contract import CpiError

_TIMEOUT_S = 3.0


def read_metadata(
    url: str, limit: int = 2**20, *, method: str = "GET", headers: Mapping[str, str] | None = None
) -> bytes:
    """Raises where this machine is no VM of the cloud."""
    import urllib.request  # slow to import, and few calls read it

    request = urllib.request.Request(url, method=method, headers=dict(headers or {}))  # noqa: S310 # forms take http URLs
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return bytes(answer.read(limit))
    except (OSError, ValueError) as error:
        raise not_inside(url, error) from error


def not_inside(url: str, error: Exception) -> CpiError:
    return CpiError(
        "this machine does not seem to be a VM of this cloud",
        why=f"{url}: {error}",
        remedy="run it inside a VM that can reach the metadata service, or correct properties.metadata_url",
    )
