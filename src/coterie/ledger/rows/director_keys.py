"""Public keys of Directors, and the signatures that they put on steps and questions.

What is signed of a step is what the Director asked for: its identity and its parameters. Its label and its progress are
the conductor's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx, now, signer_of
from coterie.ledger.tables import director_keys, facts, steps
from coterie.seal.signature import Signer, Verifier

Signature = dict[str, Any]  # {"key": id, "names": the signed keys of a step's data, "signature": …}
NamesOf = Callable[[str], Sequence[str]]  # flow → keys of its parameters

_LOCK = 0x7369676E  # two Directors must not both be the first
_STEP = ("id", "task", "flow", "subject", "node", "cloud", "driver", "conductor_group")
_QUESTION = ("cloud", "what", "driver", "conductor_group", "properties", "question", "wanted_at")


@dataclass(frozen=True, slots=True)
class DirectorKeys:
    """`required`: what has no signature is refused."""

    keys: Mapping[str, Verifier]
    required: bool

    def accept_step(self, row: Mapping[str, Any], signature: Signature | None) -> bool:
        names = signature.get("names") if isinstance(signature, dict) else None
        return _accepts(self, "step", _step(row, names or ()), signature)

    def accept_question(self, row: Mapping[str, Any], signature: Signature | None) -> bool:
        return _accepts(self, "question", _question(row), signature)


def read(tx: Tx) -> DirectorKeys:
    rows = tx.execute(sa.select(director_keys.c.public, director_keys.c.required)).all()
    keys = [Verifier.read(row.public) for row in rows]
    return DirectorKeys({key.id: key for key in keys}, any(row.required for row in rows))


def publish(tx: Tx, signer: Signer, names_of: NamesOf, *, pinned: bool) -> None:
    """Publish the key of this Director. The first Director that is not `pinned` to an earlier release signs, once, what
    is open and has no signature; from then on signatures are required."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    present = read(tx)
    mine = director_keys.c.id == signer.public.id
    if signer.public.id not in present.keys:
        row = {"id": signer.public.id, "public": signer.public.text, "created_at": now()}
        tx.execute(director_keys.insert().values(**row))
    if not pinned and not present.required:
        _sign_open(tx, signer, names_of)
        tx.execute(director_keys.update().where(mine).values(required=True))


def sign_step(signer: Signer, row: Mapping[str, Any], names: Iterable[str]) -> Signature:
    kept = sorted(set(names) & set(row["data"] or {}))
    return _sign(signer, "step", _step(row, kept), kept)


def sign_question(signer: Signer, row: Mapping[str, Any]) -> Signature:
    return _sign(signer, "question", _question(row), [])


def sign_regrouped(tx: Tx, ids: Sequence[int], group: str) -> None:
    """Sign steps again that the Director sends to another group; one whose signature is not right gets no new one."""
    signer = signer_of(tx)
    if signer is None or not ids:
        return
    known = read(tx)
    changed = []
    for found in tx.execute(sa.select(steps).where(steps.c.id.in_(ids), steps.c.signature.is_not(None))):
        row = found._asdict()
        if known.accept_step(row, row["signature"]):
            new = sign_step(signer, {**row, "conductor_group": group}, row["signature"]["names"])
            changed.append({"b_id": row["id"], "b_signature": new})
    _store_signatures(tx, changed)


def _sign_open(tx: Tx, signer: Signer, names_of: NamesOf) -> None:
    """What a Director of an earlier release has begun."""
    open_steps = sa.and_(steps.c.state.in_(("queued", "ready", "running")), steps.c.signature.is_(None))
    found = [row._asdict() for row in tx.execute(sa.select(steps).where(open_steps))]
    signed = [{"b_id": row["id"], "b_signature": sign_step(signer, row, names_of(row["flow"]))} for row in found]
    _store_signatures(tx, signed)
    open_facts = sa.and_(sa.or_(facts.c.at.is_(None), facts.c.at < facts.c.wanted_at), facts.c.signature.is_(None))
    for row in [row._asdict() for row in tx.execute(sa.select(facts).where(open_facts))]:
        this = sa.and_(facts.c.cloud == row["cloud"], facts.c.what == row["what"])
        tx.execute(facts.update().where(this).values(signature=sign_question(signer, row)))


def _store_signatures(tx: Tx, rows: list[dict[str, Any]]) -> None:
    if rows:
        signed = steps.update().where(steps.c.id == sa.bindparam("b_id"))
        tx.execute(signed.values(signature=sa.bindparam("b_signature", type_=steps.c.signature.type)), rows)


def _step(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    data = row["data"] or {}
    return {**{name: row[name] for name in _STEP}, "params": {name: data.get(name) for name in names}}


def _question(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _QUESTION}


def _sign(signer: Signer, kind: str, message: dict[str, Any], names: list[str]) -> Signature:
    return {"key": signer.public.id, "names": names, "signature": signer.sign({"kind": kind, **message})}


def _accepts(known: DirectorKeys, kind: str, message: dict[str, Any], signature: Signature | None) -> bool:
    if signature is None:
        return not known.required
    key = known.keys.get(str(signature.get("key"))) if isinstance(signature, dict) else None
    return key is not None and key.accepts({"kind": kind, **message}, str(signature.get("signature")))
