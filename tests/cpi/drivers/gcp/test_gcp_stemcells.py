"""Archives of disks, uploads that break off, and images that are there already."""

from __future__ import annotations

import io
import random
import tarfile
from functools import partial
from pathlib import Path

import pytest
from peers.gcp_bed import PUBLIC_IMAGE, GcpBed

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, Expected, InvalidCall, OutcomeUnknown, StemcellNotFound
from coterie.cpi.drivers.gcp import stemcells
from coterie.cpi.drivers.gcp.stemcells import Stemcells, _pack
from coterie.sandbox.fronts.gcp.call import Trick

GIB = 2**30


def disk_of(seed: int) -> bytes:
    """Data and holes, of odd lengths."""
    chance, raw = random.Random(seed), bytearray()
    for _ in range(chance.randint(1, 40)):
        raw += (
            chance.randbytes(chance.randint(1, 90_000)) if chance.random() < 0.5 else bytes(chance.randint(1, 300_000))
        )
    return bytes(raw)


@pytest.mark.parametrize("seed", range(6))
def test_an_archive_holds_the_disk_and_is_small(seed: int) -> None:
    """Read by the standard library, which knows the sparse members of GNU's tar."""
    disk = disk_of(seed)
    packed = b"".join(_pack(io.BytesIO(disk)))
    assert len(packed) < len(disk) + 100_000
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        (member,) = archive.getmembers()
        assert (member.name, member.size) == ("disk.raw", GIB)
        file = archive.extractfile(member)
        assert file and file.read(len(disk) + 4096) == disk + bytes(4096)
        file.seek(GIB - 10)
        assert file.read() == bytes(10)


def test_a_stemcell_for_google_is_sent_as_it_is(bed: GcpBed, lab: Lab, tmp_path: Path) -> None:
    image = tmp_path / "image"
    raw = b"".join(_pack(io.BytesIO(b"disk")))
    image.write_bytes(raw)
    sent: list[bytes] = []
    objects = bed.front.compute.objects
    bed.front.watch = lambda method: sent.extend(data for data, _ in objects.values()) if "images" in method else None
    lab.undo(lab.cpi.delete_stemcell, lab.cpi.create_stemcell(str(image), {}, mark=lab.mark()))
    assert raw in sent and not objects


def test_an_upload_goes_on_where_it_was_cut_off(bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stemcells, "_PIECE", 256 * 1024)
    chance = random.Random(1)
    image = bed.folder / "large"
    image.write_bytes(chance.randbytes(700_000))
    bed.peer.server.lose_upload = True
    lab.undo(lab.cpi.delete_stemcell, lab.cpi.create_stemcell(str(image), {}, mark=lab.mark()))
    assert not bed.front.compute.objects


def test_what_an_upload_left_is_found_and_deleted(bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    mark, before = lab.mark(), bed.inventory()
    with monkeypatch.context() as patch:
        patch.setattr(Stemcells, "_wait_until_ready", lambda self, name: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            bed.open().create_stemcell(*bed.image(), mark=mark)
    bed.operator.delete("image", mark.name())
    (found,) = [one for one in lab.cpi.survey("image", bed.director_uuid).objects if one.mark == mark]
    assert lab.cpi.find("image", mark) == found and found.state == "uploaded"
    lab.cpi.delete_object("image", found.cid, Expected(mark, found.created_at, found.etag))
    assert bed.inventory() == before


def test_an_image_that_google_refuses_leaves_no_upload(bed: GcpBed, lab: Lab) -> None:
    before = bed.inventory()
    bed.front.tricks.append(Trick("fail", "images.insert"))
    error = expect_error(CpiError, lambda: bed.open().create_stemcell(*bed.image(), mark=lab.mark()))
    assert not isinstance(error, OutcomeUnknown)
    assert bed.inventory() == before


def test_light_stemcells_are_used_as_they_are(bed: GcpBed, lab: Lab) -> None:
    light = lab.cpi.create_stemcell("", {"image_url": PUBLIC_IMAGE}, mark=lab.mark())
    assert light == PUBLIC_IMAGE
    lab.vm(stemcell_cid=light)
    lab.cpi.delete_stemcell(light)
    own = lab.image()
    link = f"https://www.googleapis.com/compute/v1/projects/lab-project/global/images/{own}"
    lab.vm(stemcell_cid=lab.cpi.create_stemcell("", {"image_url": link}, mark=lab.mark()))
    for url, kind in (
        ("https://example.org/image", InvalidCall),
        ("projects/lab-project/global/images/nonesuch", StemcellNotFound),
    ):
        expect_error(kind, partial(lab.cpi.create_stemcell, "", {"image_url": url}, mark=lab.mark()))


def test_a_heavy_stemcell_needs_a_bucket(bed: GcpBed, lab: Lab) -> None:
    bed.more["stemcell_bucket"] = None
    error = expect_error(InvalidCall, lambda: bed.open().create_stemcell(*bed.image(), mark=lab.mark()))
    assert "light stemcell" in error.remedy
    bed.more["stemcell_bucket"] = "another"
    expect_error(CpiError, lambda: bed.open().create_stemcell(*bed.image(), mark=lab.mark()))
    assert [one.ok for one in bed.open().check() if one.what == "stemcell bucket"] == [False]
