"""Stemcells: uploaded to a cloud before the first VM that needs them, deleted when no node does."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.cpi.contract import Mark, StemcellNotFound
from coterie.engine.flow import Done, Flow, Move, Next, Wait, Work
from coterie.engine.intent_life import (
    Created,
    NotCreated,
    Uncalled,
    close_failed_intent,
    create_or_resume,
    find_created,
    is_uncalled,
    note_uncalled,
    note_uncalled_for_next_claim,
)
from coterie.engine.stored import OMIT_NONE, as_key
from coterie.errors import CoterieError, NotFound
from coterie.ledger.rows import objects, stemcells
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.rows.stemcells import StemcellRow

_LOOKS_AT_USERS = 12
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class UploadStemcell:
    """`stemcell`: name/version. `again`: the intent is that of an upload which did not finish.

    No undo: an image that no node uses is found by its mark and removed by cleanup.
    """

    stemcell: str
    again: bool


@dataclass(slots=True)
class UploadProgress:
    """`intent`: its row is committed with the task; a new one follows where nothing was made under it."""

    intent: str = ""
    uncalled: Uncalled | None = field(default=None, metadata=as_key("clear", Uncalled))


@dataclass(frozen=True, slots=True)
class DeleteStemcell:
    """Repeating it is harmless; there is nothing to undo."""

    stemcell: str
    intent: str


@dataclass(slots=True)
class DeleteProgress:
    """`used`: how often the cloud named a user of the image."""

    cid: str | None = None
    used: int | None = field(default=None, metadata=OMIT_NONE)


def _begin_upload(work: Work[UploadStemcell, UploadProgress]) -> Move:
    """Only a new intent may be called at once; under an old one the cloud may hold an image already."""
    if not work.params.again:
        note_uncalled(work, work.progress.intent)
    return Next("upload")


def _upload(work: Work[UploadStemcell, UploadProgress]) -> Move:
    try:
        result = create_or_resume(work, "image", work.progress.intent, lambda mark: _create_image(work, mark))
    except _ImageNotHere as missing:
        return _fetch_image(work, missing.stemcell)
    match result:
        case Created(cid):
            work.say("stemcell.ready", f"{work.params.stemcell} is in {work.cloud} as {cid}", cid=cid)
            return Done()
        case NotCreated():
            return _upload_anew(work)
    return result


def _create_image(work: Work[UploadStemcell, UploadProgress], mark: Mark) -> str:
    name, _, version = work.params.stemcell.rpartition("/")
    with work.ledger.read() as tx:
        stemcell = stemcells.get(tx, name, version)
    if stemcell is None:
        raise NotFound(f"stemcell {name}/{version} is not in the catalogue", remedy="coterie stemcells upload FILE")
    path = work.images.find(stemcell) if stemcell.image else None
    if stemcell.image and path is None:
        raise _ImageNotHere(stemcell)
    return work.cpi.create_stemcell(str(path or ""), stemcell.cloud_properties, None, mark=mark)


class _ImageNotHere(Exception):
    """The cloud was not called: this conductor has to fetch the image first."""

    def __init__(self, stemcell: StemcellRow) -> None:
        super().__init__(stemcell.ref)
        self.stemcell = stemcell


def _fetch_image(work: Work[UploadStemcell, UploadProgress], stemcell: StemcellRow) -> Move:
    """The image comes in slices, for it may take many minutes; the intent stays uncalled meanwhile."""
    uncalled = is_uncalled(work, work.progress.intent)
    try:
        partial = work.images.fetch(stemcell)
    except CoterieError:
        if uncalled:
            note_uncalled_for_next_claim(work, work.progress.intent)
        raise
    if partial is None:
        return Next("upload")
    if uncalled:
        note_uncalled_for_next_claim(work, work.progress.intent)
    return Wait(_LOOK_AGAIN_S if partial.by_another else 0.0, str(partial))


def _upload_anew(work: Work[UploadStemcell, UploadProgress]) -> Move:
    intent = work.ids.intent()
    work.write(objects.intend(intent, "image", work.cloud, ref=work.params.stemcell))
    work.progress.intent = intent
    note_uncalled(work, intent)
    return Next("upload")


def _fail_upload(work: Work[UploadStemcell, UploadProgress], error: CoterieError) -> None:
    close_failed_intent(work, work.progress.intent)


def _begin_delete(work: Work[DeleteStemcell, DeleteProgress]) -> Move:
    with work.ledger.read() as tx:
        row = objects.get(tx, work.params.intent)
    if row is None or row.state == "gone":
        return Done()
    users = _count_nodes(work, row)
    if users:
        return _keep(work, row, users)
    if row.cid is None:
        found = find_created(work, "image", row.intent)
        return Next("begin") if isinstance(found, Created | NotCreated) else found
    used = _wait_for_users(work, row)
    if used is not None:
        return used
    work.progress.cid = row.cid
    work.write(objects.begin_delete(row.intent, row.cid))
    return Next("delete")


def _count_nodes(work: Work[DeleteStemcell, DeleteProgress], row: ObjectRow) -> int:
    """Nodes of any deployment that have the image, or are going to have it."""
    with work.ledger.read() as tx:
        return objects.stemcell_users(tx, row.cloud, row.ref or "")


def _keep(work: Work[DeleteStemcell, DeleteProgress], row: ObjectRow, users: int) -> Move:
    work.say("stemcell.kept", f"{row.ref} stays in {row.cloud}: {users} nodes use it")
    return Done()


def _wait_for_users(work: Work[DeleteStemcell, DeleteProgress], row: ObjectRow) -> Move | None:
    """Others than nodes may use an image: VMs of people, and projects that it is shared with. Clouds name a VM for a
    while after its deletion, so they are asked several times."""
    found = work.cpi.find("image", Mark(work.director_uuid, row.intent)) if work.cpi.capabilities().finds else None
    if found is None or not found.in_use_by:
        return None
    users = ", ".join(found.in_use_by[:5])
    work.progress.used = (work.progress.used or 0) + 1
    if work.progress.used < _LOOKS_AT_USERS:
        return Wait(0.1 * work.progress.used, f"used by {users}")
    work.say("stemcell.kept", f"{row.ref} stays in {row.cloud} as {found.cid}: used by {users}", cid=found.cid)
    return Done()


def _delete(work: Work[DeleteStemcell, DeleteProgress]) -> Move:
    """Count again, now that the row is `deleting`: a deployment that is accepted from here on uploads an image of its
    own, and one that was accepted while `begin` counted has steps by now."""
    with work.ledger.read() as tx:
        row = objects.get(tx, work.params.intent)
        replaced = row is not None and objects.has_other_image(tx, row)
    if row is None or row.state == "gone":
        return Done()  # another deployment was deleted at the same time, and its task did it
    users = 0 if replaced else _count_nodes(work, row)
    if users:
        work.write(objects.end_delete(row.intent, "live"))
        return _keep(work, row, users)
    try:
        work.cpi.delete_stemcell(work.progress.cid or "")
    except StemcellNotFound:
        work.say("stemcell.gone", "was gone already")
    work.write(objects.record_gone(work.params.intent))
    work.say("stemcell.deleted", f"{work.params.stemcell} left {work.cloud}")
    return Done()


UPLOAD_STEMCELL = Flow(
    "stemcell.upload", UploadStemcell, UploadProgress, {"begin": _begin_upload, "upload": _upload}, _fail_upload
)
DELETE_STEMCELL = Flow("stemcell.delete", DeleteStemcell, DeleteProgress, {"begin": _begin_delete, "delete": _delete})
