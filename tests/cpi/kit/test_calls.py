"""Errors of a driver leave it in the contract's words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coterie.cpi.contract import (
    Changed,
    Cpi,
    CpiError,
    InvalidCall,
    Json,
    Mark,
    OutcomeUnknown,
    Throttled,
    Unavailable,
)
from coterie.cpi.kit.calls import ClassifiedRefusal, is_passing, rest_after, rewrite, translate_errors


class Refusal(Exception):
    pass


@translate_errors(Refusal, lambda error: InvalidCall(str(error), remedy="mend it"))
class HalfCpi(Cpi):
    def ping(self) -> str:
        raise Refusal("no")

    def has_vm(self, vm_cid: str) -> bool:
        raise OSError("disk full")

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        raise cloud_properties["error"]

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        raise changes[0]["error"]

    def has_disk(self, disk_cid: str) -> bool:
        return self._look(disk_cid)

    def _look(self, disk_cid: str) -> bool:
        raise Refusal("inside")


class Base(Cpi):
    """Two drivers share it, as they share the kit's `ComposedCpi`."""

    def reboot_vm(self, vm_cid: str) -> None:
        raise Refusal("still booting")


@translate_errors(Refusal, lambda error: InvalidCall(str(error), remedy="wait"))
class FirstCpi(Base):
    pass


@translate_errors(KeyError, lambda error: InvalidCall(str(error), remedy="wait"))
class SecondCpi(Base):
    pass


for half in (HalfCpi, Base, FirstCpi, SecondCpi):
    half.__abstractmethods__ = frozenset()


@pytest.fixture
def cpi() -> HalfCpi:
    return HalfCpi("c", {}, None)  # type: ignore[abstract, arg-type] # half a driver, which needs no runtime


def test_a_refusal_leaves_translated(cpi: HalfCpi) -> None:
    with pytest.raises(InvalidCall, match="no"):
        cpi.ping()
    with pytest.raises(InvalidCall, match="inside"):
        cpi.has_disk("d")


def test_an_error_of_this_machine_names_the_method(cpi: HalfCpi) -> None:
    with pytest.raises(CpiError, match="has_vm failed on this machine"):
        cpi.has_vm("v")


@pytest.mark.parametrize("error", [FileNotFoundError("the image is gone"), KeyError("unforeseen")])
def test_a_creation_that_fails_here_may_have_begun_in_the_cloud(cpi: HalfCpi, error: Exception) -> None:
    with pytest.raises(OutcomeUnknown, match="create_disk failed on this machine") as caught:
        cpi.create_disk(1, {"error": error}, None, mark=Mark("d", "0" * 26))
    assert str(error) in caught.value.why


@pytest.mark.parametrize("error", [OSError("disk full"), KeyError("unforeseen")])
def test_what_fails_for_the_writer_of_a_domain_is_left_to_the_coordinator(cpi: HalfCpi, error: Exception) -> None:
    """A change may create something under a mark: no error of the contract may say that nothing was done."""
    with pytest.raises(type(error)):
        cpi.apply("d", [{"error": error}])


def test_what_is_not_of_the_contract_is_left_alone(cpi: HalfCpi) -> None:
    with pytest.raises(Refusal):
        cpi._look("d")


def test_an_inherited_method_is_translated_for_its_own_driver_only() -> None:
    with pytest.raises(InvalidCall, match="still booting"):
        FirstCpi("c", {}, None).reboot_vm("v")  # type: ignore[abstract, arg-type] # half a driver
    for other in (Base, SecondCpi):
        with pytest.raises(Refusal, match="still booting"):
            other("c", {}, None).reboot_vm("v")  # type: ignore[abstract, arg-type] # half a driver


def test_what_only_the_contract_has_stays_the_contract_s() -> None:
    assert FirstCpi.grant is Cpi.grant and "grant" not in vars(FirstCpi)


def refused(kind: type[CpiError]) -> ClassifiedRefusal:
    error = ClassifiedRefusal("no", remedy="wait")
    error.kind = kind
    return error


@pytest.mark.parametrize(
    "error", [Throttled("no", remedy="wait"), Unavailable("no", remedy="wait"), refused(Throttled)]
)
def test_trouble_of_the_moment_is_waited_out(error: CpiError) -> None:
    assert is_passing(error)
    assert rest_after(error, 0.5) == 0.5


def test_the_rest_is_as_long_as_the_cloud_says() -> None:
    assert rest_after(Throttled("no", remedy="wait", details={"retry_after": 7}), 0.5) == 7.0
    assert rest_after(Throttled("no", remedy="wait", details={"retry_after": 0.1}), 0.5) == 0.5


@pytest.mark.parametrize("error", [OutcomeUnknown("no", remedy="look"), refused(InvalidCall), ValueError("no")])
def test_any_other_error_is_final(error: Exception) -> None:
    assert not is_passing(error)
    assert rest_after(error, 0.5) is None


def test_what_others_wrote_meanwhile_is_read_again() -> None:
    rows, written = [1, 2, 3], list[int]()

    def write(row: int) -> None:
        if row < 3:
            raise refused(Changed)
        written.append(row)

    rewrite(lambda: rows.pop(0), write)
    assert written == [3]


def test_a_rewrite_ends_after_some_tries_and_with_any_other_refusal() -> None:
    looks: list[int] = []

    def write(row: int) -> None:
        looks.append(row)
        raise refused(Changed if row else InvalidCall)

    for row, tries in ((1, 5), (0, 1)):
        looks.clear()
        with pytest.raises(ClassifiedRefusal):
            rewrite(lambda row=row: row, write)  # type: ignore[misc] # mypy takes a default for a parameter
        assert len(looks) == tries
