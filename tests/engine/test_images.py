"""Images of stemcells reach conductors that have a state folder of their own: through the database, in chunks."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.conductor.startup import connect
from coterie.engine.image_upkeep import ImageUpkeep
from coterie.engine.images import Images, Partial
from coterie.errors import CoterieError, NotFound
from coterie.ids import Ids
from coterie.ledger.rows import images, stemcells
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.rows.stemcells import StemcellRow
from coterie.ledger.store import Ledger
from coterie.requests import start
from coterie.requests.request import PlanRequest
from tests.cli.conftest import CLOUD, MANIFEST
from tests.ledger.test_grants import finished
from tests.peers.postgres import conductor_role

IMAGE = random.Random(7).randbytes(3 * images.CHUNK + 1000)
SHA256 = hashlib.sha256(IMAGE).hexdigest()
_DAY_S = 86400


@pytest.fixture
def director(postgres_url: str) -> Iterator[Ledger]:
    opened = Ledger.open(postgres_url)
    ensure_director(opened, "test", Ids())
    yield opened
    opened.close()


def publish(ledger: Ledger, folder: Path, version: str = "1.1", content: bytes = IMAGE) -> StemcellRow:
    """What a Director does with an upload."""
    row = add_file(ledger, folder, version, content)
    size = Images(ledger, folder).publish(folder / f"debian-12-{version}", row.sha256 or "")
    with ledger.write() as tx:
        assert images.record_whole(tx, row.sha256 or "", size)
    return get(ledger, version)


def add_file(ledger: Ledger, folder: Path, version: str = "1.1", content: bytes = IMAGE) -> StemcellRow:
    """As a Director of an earlier release: the file is in its folder, the row in the catalogue."""
    folder.mkdir(exist_ok=True)
    (folder / f"debian-12-{version}").write_bytes(content)
    with ledger.write() as tx:
        digest = hashlib.sha256(content).hexdigest()
        stemcells.add(tx, "debian-12", version, f"debian-12-{version}", digest, {"image": "x"}, [])
    return get(ledger, version)


def get(ledger: Ledger, version: str = "1.1") -> StemcellRow:
    with ledger.read() as tx:
        found = stemcells.get(tx, "debian-12", version)
    assert found is not None
    return found


def age(path: Path, days: float) -> None:
    os.utime(path, (time.time() - days * _DAY_S,) * 2)


def test_a_deployment_uses_an_image_that_another_machine_took_in(
    director: Ledger, postgres_url: str, tmp_path: Path
) -> None:
    publish(director, tmp_path / "director")
    theirs = connect(conductor_role(postgres_url))
    conductor = Conductor(theirs, "c1", state_folder=tmp_path / "site", role=ConductorRole(""), workers=2)
    conductor.start()
    try:
        request = PlanRequest(deployment="web", manifest=MANIFEST, cloud_config=CLOUD)
        assert finished(director, start.deploy(director, request, None, None)) == "done"
    finally:
        conductor.drain(10)
        theirs.close()
    fetched = tmp_path / "site/stemcells/debian-12-1.1"
    assert fetched.read_bytes() == IMAGE
    assert [path.name for path in fetched.parent.iterdir()] == [fetched.name], "nothing half-fetched is left"


def test_a_fetch_goes_on_where_it_was_cut_off(director: Ledger, tmp_path: Path) -> None:
    row = publish(director, tmp_path / "director")
    here = tmp_path / "site"
    assert Images(director, here, slice_s=0).fetch(row) == Partial(images.CHUNK, len(IMAGE))
    assert Images(director, here, slice_s=0).fetch(row) == Partial(2 * images.CHUNK, len(IMAGE))
    part = here / "debian-12-1.1.part"
    os.truncate(part, images.CHUNK * 3 // 2)  # a kill in the middle of a write
    with director.write() as tx:
        images.put_chunk(tx, SHA256, 0, b"it must not be fetched again")
    assert Images(director, here).fetch(row) is None
    assert (here / "debian-12-1.1").read_bytes() == IMAGE and not part.exists()


def test_two_steps_do_not_fetch_it_at_once(director: Ledger, tmp_path: Path) -> None:
    row = publish(director, tmp_path / "director")
    one, other = Images(director, tmp_path / "site", slice_s=0), Images(director, tmp_path / "site", slice_s=0)
    assert one.fetch(row) == Partial(images.CHUNK, len(IMAGE))
    with (tmp_path / "site/debian-12-1.1.part").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert other.fetch(row) == Partial(0, len(IMAGE), by_another=True)
    assert other.fetch(row) == Partial(2 * images.CHUNK, len(IMAGE))


def test_what_is_damaged_is_never_used_and_mended_by_the_next_upload(director: Ledger, tmp_path: Path) -> None:
    row = publish(director, tmp_path / "director")
    with director.write() as tx:
        images.put_chunk(tx, SHA256, 1, b"\0" * images.CHUNK)
    site = Images(director, tmp_path / "site")
    with pytest.raises(CoterieError, match="SHA-256") as refused:
        site.fetch(row)
    assert "coterie stemcells upload FILE" in refused.value.remedy
    assert not any((tmp_path / "site").iterdir())
    publish(director, tmp_path / "director")
    assert site.fetch(row) is None and site.find(row) is not None
    (tmp_path / "site/debian-12-1.1").write_bytes(b"changed on the disk")
    assert site.find(row) is None, "it would be fetched again"


def test_an_image_that_is_nowhere_is_an_error_with_its_remedy(director: Ledger, tmp_path: Path) -> None:
    row = add_file(director, tmp_path / "director")
    with pytest.raises(NotFound, match="neither on this machine nor in the database") as refused:
        Images(director, tmp_path / "site").fetch(row)
    assert "coterie stemcells upload FILE" in refused.value.remedy


def test_a_director_publishes_what_an_earlier_release_took_in(director: Ledger, tmp_path: Path) -> None:
    add_file(director, tmp_path / "director")
    ImageUpkeep(director, Images(director, tmp_path / "another"), publishes=True).tend_once()
    assert get(director).image_size is None, "only the Director with the file can"
    ImageUpkeep(director, Images(director, tmp_path / "director"), publishes=True).tend_once()
    assert get(director).image_size == len(IMAGE)
    assert Images(director, tmp_path / "site").fetch(get(director)) is None


def test_chunks_go_with_the_last_stemcell_that_has_them(director: Ledger, tmp_path: Path) -> None:
    for version in ("1.1", "1.2"):
        publish(director, tmp_path / "director", version)
    for version, left in (("1.1", IMAGE[: images.CHUNK]), ("1.2", None)):
        with director.write() as tx:
            stemcells.delete(tx, "debian-12", version)
            images.forget_unused(tx, SHA256)
        with director.read() as tx:
            assert images.read_chunk(tx, SHA256, 0) == left


def test_chunks_of_an_upload_that_was_cut_off_are_deleted_after_a_day(director: Ledger, tmp_path: Path) -> None:
    publish(director, tmp_path / "director")
    with director.write() as tx:
        images.put_chunk(tx, "cut off", 0, b"1")
        tx.exec_driver_sql(f"UPDATE stemcell_chunks SET stored_at = stored_at - {2 * _DAY_S}")
        images.put_chunk(tx, "under way", 0, b"1")
        assert images.forget_abandoned(tx) == 1
        assert images.read_chunk(tx, "under way", 0) and images.read_chunk(tx, SHA256, 0)


def test_the_folder_keeps_what_is_of_use(director: Ledger, tmp_path: Path) -> None:
    here = tmp_path / "site"
    publish(director, here, "1.1")
    publish(director, here, "1.2")
    add_file(director, here, "only-here")
    for name in ("left-the-catalogue", "x.part", "new.part"):
        (here / name).write_bytes(b"1")
    (here / "incoming-1").mkdir()
    for name, days in {"debian-12-1.1": 8, "debian-12-1.2": 6, "debian-12-only-here": 99}.items():
        age(here / name, days)
    for name in ("left-the-catalogue", "x.part", "incoming-1"):
        age(here / name, 2)
    Images(director, here).clean()
    assert {path.name for path in here.iterdir()} == {"debian-12-1.2", "debian-12-only-here", "new.part"}


def test_a_local_director_has_its_images_in_files_only(tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    row = add_file(ledger, tmp_path / "store")
    ImageUpkeep(ledger, Images(ledger, tmp_path / "store"), publishes=True).tend_once()
    assert get(ledger).image_size is None
    assert Images(ledger, tmp_path / "store").find(row) == tmp_path / "store/debian-12-1.1"
    ledger.close()
