"""Seals a cloud config before it leaves this machine, so that a Director elsewhere never sees a credential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.client import Client
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.seal.key import PublicKey

Keys = Sequence[tuple[str, str]]  # conductor group and public key; of each group the newest first
_EVERY = "*"


def seal_if_remote(client: Client, text: str, file: str) -> str:
    """Seal for a remote Director. The local one seals by itself, so local commands need not."""
    return seal_with_published(client, text, file) if client.is_remote else text


def seal_with_published(client: Client, text: str, file: str) -> str:
    """For what is written to a file."""
    return seal_for(published_keys(client), text, file)


def published_keys(client: Client) -> Keys:
    """A Director that is pinned to a release from before groups shows none: then each key counts for every group."""
    return [(one.get("conductor_group", _EVERY), one["public"]) for one in client.keys.list()]


def parse_keys(keys_given: Sequence[str]) -> Keys:
    """Keys that the user brought from the conductors, as GROUP=PUBLIC."""
    pairs = [(group.lower(), public) for group, equals, public in (one.partition("=") for one in keys_given) if equals]
    if len(pairs) != len(keys_given):
        raise UsageError("--key names no group", remedy="write GROUP=PUBLIC; =PUBLIC for no group")
    return pairs


def seal_for(keys: Keys, text: str, file: str) -> str:
    """Refused with the lines of all mistakes before anything is sealed: nothing can read the properties afterwards."""
    from coterie.cpi.load import forms_of
    from coterie.seal.config import seal_config
    from coterie.seal.key import PublicKey

    def of_group(group: str) -> list[PublicKey]:
        own = [public for whose, public in keys if whose == group]
        return [PublicKey.read(one) for one in own or [public for whose, public in keys if whose == _EVERY]]

    def key_of(group: str) -> PublicKey | None:
        return next(iter(of_group(group)), None)

    def is_known(group: str, key_id: str) -> bool:
        return any(key.id == key_id for key in of_group(group))

    return seal_config(text, file, key_of, is_known, forms_of=forms_of)
