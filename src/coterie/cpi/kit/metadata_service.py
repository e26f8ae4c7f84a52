"""What a cloud's metadata service answers to a machine inside it."""

from __future__ import annotations

from coterie.cpi.contract import CpiError

_TIMEOUT_S = 3.0


def read_metadata(url: str, limit: int = 2**20) -> bytes:
    """Raises where this machine is no VM of the cloud."""
    import urllib.request  # slow to import, and few calls read it

    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 # forms take http URLs only
            return bytes(answer.read(limit))
    except OSError as error:
        raise not_inside(url, error) from error


def not_inside(url: str, error: Exception) -> CpiError:
    return CpiError(
        "this machine does not seem to be a VM of this cloud",
        why=f"{url}: {error}",
        remedy="run it inside a VM that can reach the metadata service, or correct properties.metadata_url",
    )
