"""How many instances each az gets where nothing else decides it."""

from __future__ import annotations


def even_shares(instances: int, azs: int) -> list[int]:
    """An even share for each az; what does not divide goes to the first ones."""
    share, rest = divmod(instances, azs)
    return [share + (index < rest) for index in range(azs)]
