"""Tags: texts on any object, set with it in one step, and searchable. The cloud gives them no meaning."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.sandbox.api import api
from coterie.sandbox.errors import BadRequest, NoSuch
from coterie.sandbox.twist import Tx

TAG_LIMIT = 64
KEY_LIMIT = 128
VALUE_LIMIT = 4096
AS_JSON = "(SELECT json_group_object(t.key, t.value) FROM tags t WHERE t.object = o.seq)"


@api("set_tags")
def set_tags(tx: Tx, wanted: str, kind: str, changes: Mapping[str, str | None], *, rename: str | None = None) -> None:
    """Set the given tags of an object, drop those given as None, leave the others; rename it where asked."""
    row = tx.db.execute(
        "SELECT seq FROM objects WHERE id = ? AND account = ? AND kind = ?", (wanted, tx.account, kind)
    ).fetchone()
    if row is None:
        raise NoSuch(kind, wanted)
    change(tx, row[0], kind, changes)
    tx.db.execute(
        "UPDATE objects SET revision = revision + 1, name = coalesce(?, name) WHERE seq = ?", (rename, row[0])
    )


def write(tx: Tx, seq: int, kind: str, tags: Mapping[str, str]) -> None:
    """Put these tags onto a new object."""
    for key, value in tags.items():
        _validate(key, value)
    where = scope(tx.account, kind)
    tx.db.executemany(
        "INSERT INTO tags (object, key, value, scope) VALUES (?,?,?,?)",
        [(seq, key, value, where) for key, value in tags.items()],
    )


def change(tx: Tx, seq: int, kind: str, changes: Mapping[str, str | None]) -> None:
    tx.db.executemany("DELETE FROM tags WHERE object = ? AND key = ?", [(seq, key) for key in changes])
    write(tx, seq, kind, {key: value for key, value in changes.items() if value is not None})
    if tx.db.execute("SELECT count(*) FROM tags WHERE object = ?", (seq,)).fetchone()[0] > TAG_LIMIT:
        raise BadRequest(f"an object has at most {TAG_LIMIT} tags", remedy="remove some tags first")


def scope(account: str, kind: str) -> str:
    """Where a tag is searched: the tags of one kind in one account."""
    return f"{account}/{kind}"


def _validate(key: str, value: str) -> None:
    if not key or len(key) > KEY_LIMIT or len(value) > VALUE_LIMIT:
        raise BadRequest(
            f"tag {key[:KEY_LIMIT]!r} is too long or has no key",
            remedy=f"keep keys to {KEY_LIMIT} and values to {VALUE_LIMIT} characters",
        )
