"""Seals a cloud config before it leaves this machine, so that a Director elsewhere never sees a credential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.cli.link.api import Api
from coterie.cli.link.route import TcpRoute
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.seal.key import PublicKey

Keys = Sequence[tuple[str, str]]  # conductor group and public key; of each group the newest first
_EVERY = "*"


def sealed(api: Api, text: str, file: str) -> str:
    """For a Director elsewhere. The one of this machine's user seals by itself, which spares every call the work."""
    return sealed_anyway(api, text, file) if isinstance(api.route, TcpRoute) else text


def sealed_anyway(api: Api, text: str, file: str) -> str:
    """For what is written to a file."""
    return seal_for(published(api), text, file)


def published(api: Api) -> Keys:
    return [(one["conductor_group"], one["public"]) for one in api.get("/v1/keys")["items"]]


def trusted(told: Sequence[str]) -> Keys:
    """Keys that the user brought from the conductors, as GROUP=PUBLIC."""
    pairs = [(group.lower(), public) for group, equals, public in (one.partition("=") for one in told) if equals]
    if len(pairs) != len(told):
        raise UsageError("--key does not say whose key it is", remedy="write GROUP=PUBLIC; =PUBLIC for no group")
    return pairs


def seal_for(keys: Keys, text: str, file: str) -> str:
    from coterie.seal.config import seal_config
    from coterie.seal.key import PublicKey

    def of_group(group: str) -> list[PublicKey]:
        own = [public for whose, public in keys if whose == group]
        return [PublicKey.read(one) for one in own or [public for whose, public in keys if whose == _EVERY]]

    def key_of(group: str) -> PublicKey | None:
        return next(iter(of_group(group)), None)

    def known(group: str, key_id: str) -> bool:
        return any(key.id == key_id for key in of_group(group))

    return seal_config(text, file, key_of, known)
