"""Stemcells: handed to a cloud before the first VM that needs them, taken out when nobody does."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from coterie.cpi.contract import Mark, StemcellNotFound
from coterie.engine.create_once import Landed, Lost, clear, close_failed, create_once, settle
from coterie.engine.flow import Done, Flow, Move, Next, Work
from coterie.errors import CoterieError, NotFound
from coterie.ledger.rows import objects, stemcells


class UploadStemcell(Flow):
    """data: stemcell "name/version", intent (its row was committed with the task).

    No undo: an image that nobody uses is found by its mark and removed by cleanup.
    """

    name: ClassVar[str] = "stemcell.upload"

    def begin(self, work: Work) -> Move:
        """The intent is in the ledger already. Only a new one is ours to call; an old one has to be settled first."""
        if not work.data["again"]:
            clear(work, work.data["intent"])
        return Next("upload")

    def upload(self, work: Work) -> Move:
        done = create_once(work, "image", work.data["intent"], lambda mark: self._call(work, mark))
        match done:
            case Landed(cid):
                work.say("stemcell.ready", f"{work.data['stemcell']} is in {work.claim.cloud} as {cid}", cid=cid)
                return Done()
            case Lost():
                return self._again(work)
        return done

    def failed(self, work: Work, error: CoterieError) -> None:
        close_failed(work, work.data["intent"])

    def _call(self, work: Work, mark: Mark) -> str:
        name, _, version = work.data["stemcell"].rpartition("/")
        with work.ledger.read() as tx:
            stemcell = stemcells.get(tx, name, version)
        if stemcell is None:
            raise NotFound(f"stemcell {name}/{version} is not in the catalogue", remedy="coterie stemcells upload FILE")
        image = str(Path(work.store) / stemcell.image) if stemcell.image else ""
        return work.cpi.create_stemcell(image, stemcell.cloud_properties, None, mark=mark)

    def _again(self, work: Work) -> Move:
        intent = work.ids.intent()
        cloud = work.claim.cloud or ""
        work.write(objects.intend(intent, "image", cloud, ref=work.data["stemcell"]))
        work.data["intent"] = intent
        clear(work, intent)
        return Next("upload")


class DeleteStemcell(Flow):
    """data: stemcell, intent. Repeating it is harmless; there is nothing to undo."""

    name: ClassVar[str] = "stemcell.delete"

    def begin(self, work: Work) -> Move:
        with work.ledger.read() as tx:
            row = objects.get(tx, work.data["intent"])
        if row is None or row.state == "gone":
            return Done()
        with work.ledger.read() as tx:
            users = objects.stemcell_users(tx, row.cloud, row.ref or "")
        if users:
            work.say("stemcell.kept", f"{row.ref} stays in {row.cloud}: {users} nodes have come to use it")
            return Done()
        if row.cid is None:
            settled = settle(work, "image", row.intent)
            return Next("begin") if isinstance(settled, Landed | Lost) else settled
        work.data["cid"] = row.cid
        work.write(objects.begin_delete(row.intent, row.cid))
        return Next("delete")

    def delete(self, work: Work) -> Move:
        try:
            work.cpi.delete_stemcell(work.data["cid"])
        except StemcellNotFound:
            work.say("stemcell.gone", "was gone already")
        work.write(objects.record_gone(work.data["intent"]))
        work.say("stemcell.deleted", f"{work.data['stemcell']} left {work.claim.cloud}")
        return Done()
