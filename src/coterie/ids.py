"""Identifiers. Ids are made here and nowhere else, from an injectable source of time and randomness."""

from __future__ import annotations

import hashlib
import re
import secrets
import time

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
INTENT_LENGTH = 26
PREFIX_LENGTH = 10
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$", re.IGNORECASE)


class Ids:
    """Makes fresh ids; tests hand in a seeded subclass."""

    def intent(self) -> str:
        """26 characters: 48 bits of time in milliseconds, then 80 random bits; sorts by age, unguessable."""
        return base32((int(time.time() * 1000) << 80) | secrets.randbits(80), INTENT_LENGTH)

    def uuid(self) -> str:
        import uuid  # slow to import, and most calls of `coterie-cpi` make none

        return str(uuid.uuid4())


def base32(number: int, length: int) -> str:
    """`number` in Crockford's alphabet (lower case), left-padded to `length` characters."""
    digits = []
    for _ in range(length):
        digits.append(_CROCKFORD[number & 31])
        number >>= 5
    return "".join(reversed(digits))


def is_uuid(text: str) -> bool:
    return bool(_UUID.match(text))


def director_prefix(director_uuid: str) -> str:
    """The ten characters of a Director that go into names: the first ones of a uuid; of any other id, which may be
    shorter or begin like another one, those of its hash."""
    if is_uuid(director_uuid):
        return old_director_prefix(director_uuid)
    return base32(int.from_bytes(hashlib.sha256(director_uuid.encode()).digest()[:8], "big"), PREFIX_LENGTH)


def old_director_prefix(director_uuid: str) -> str:
    """What release 0.1.0 wrote for every id."""
    return director_uuid.replace("-", "").lower()[:PREFIX_LENGTH]
