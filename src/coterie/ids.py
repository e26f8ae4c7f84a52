"""Identifiers. Ids are made here and nowhere else, from an injectable source of time and randomness."""

from __future__ import annotations

import secrets
import time
import uuid

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
INTENT_LENGTH = 26


class Ids:
    """Makes fresh ids; tests hand in a seeded subclass."""

    def intent(self) -> str:
        """26 characters: 48 bits of time in milliseconds, then 80 random bits; sorts by age, unguessable."""
        return base32((int(time.time() * 1000) << 80) | secrets.randbits(80), INTENT_LENGTH)

    def uuid(self) -> str:
        return str(uuid.uuid4())


def base32(number: int, length: int) -> str:
    """`number` in Crockford's alphabet (lower case), left-padded to `length` characters."""
    digits = []
    for _ in range(length):
        digits.append(_CROCKFORD[number & 31])
        number >>= 5
    return "".join(reversed(digits))


def director_prefix(director_uuid: str) -> str:
    """The ten characters of a Director's uuid that go into names."""
    return director_uuid.replace("-", "").lower()[:10]
