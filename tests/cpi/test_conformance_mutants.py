"""The kit catches bad drivers: each mutant of the sandbox driver breaks one promise, and the named test must notice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peers.sandbox_bed import SandboxBed

from coterie.cpi.conformance.kit import TESTS
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, CpiError, Expected, GroupInUse, Mark, NameTaken, NotSupported, Reason
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.ids import Ids

Mutant = Callable[..., Any]


def fresh_mark(cpi: SandboxCpi, *args: Any, mark: Mark, **kwargs: Any) -> Any:
    return SandboxCpi.create_vm(cpi, *args, mark=replace(mark, intent=Ids().intent()), **kwargs)


def deletes_disks(cpi: SandboxCpi, vm_cid: str) -> None:
    disks = cpi.get_disks(vm_cid)
    SandboxCpi.delete_vm(cpi, vm_cid)
    for disk in disks:
        cpi.delete_disk(disk)


def leaks(cpi: SandboxCpi, *args: Any, mark: Mark, **kwargs: Any) -> Any:
    cpi.create_disk(1024, {}, mark=replace(mark, intent=Ids().intent()))
    return SandboxCpi.create_vm(cpi, *args, mark=mark, **kwargs)


def vendor_error(cpi: SandboxCpi, vm_cid: str) -> None:
    if not cpi.has_vm(vm_cid):
        raise KeyError(vm_cid)


def no_remedy(cpi: SandboxCpi, vm_cid: str) -> None:
    try:
        SandboxCpi.reboot_vm(cpi, vm_cid)
    except CpiError as error:
        raise type(error)(error.what) from None


def careless_delete(cpi: SandboxCpi, cid: str) -> None:
    with suppress(GroupInUse):
        SandboxCpi.delete_server_group(cpi, cid)


def careless_delete_object(cpi: SandboxCpi, kind: Any, cid: str, expected: Expected) -> None:
    found = next(one for one in cpi.survey(kind, cpi.runtime.director_uuid).objects if one.cid == cid)
    SandboxCpi.delete_object(cpi, kind, cid, Expected(found.mark))


def any_director(cpi: SandboxCpi, kind: Any, mark: Mark) -> Any:
    return SandboxCpi.find(cpi, kind, replace(mark, director=cpi.runtime.director_uuid))


def truncated(cpi: SandboxCpi, kind: Any, director_uuid: str, cursor: str | None = None) -> Any:
    return replace(SandboxCpi.survey(cpi, kind, director_uuid, cursor), next=None)


def partial_list(cpi: SandboxCpi, *args: Any) -> Any:
    return replace(SandboxCpi.survey(cpi, *args), complete=False)


def unfiltered(cpi: SandboxCpi, kind: Any, director_uuid: str, cursor: str | None = None) -> Any:
    return SandboxCpi.survey(cpi, kind, cpi.runtime.director_uuid, cursor)


def false_refusal(cpi: SandboxCpi) -> Any:
    return replace(SandboxCpi.capabilities(cpi), unsupported={"reboot_vm": Reason("no", "nowhere")})


def undocumented_refusal(cpi: SandboxCpi) -> Any:
    return replace(SandboxCpi.capabilities(cpi), unsupported={"configure_networks": Reason("no", "")})


def overwrites(cpi: SandboxCpi, metadata: Any, *, mark: Mark) -> str:
    with suppress(NameTaken):
        return SandboxCpi.create_server_group(cpi, metadata, mark=mark)
    return SandboxCpi.create_server_group(cpi, replace(metadata, options={}), mark=mark)


def shrinks(cpi: SandboxCpi, *args: Any) -> None:
    with suppress(NotSupported):
        SandboxCpi.resize_disk(cpi, *args)


def always_live(cpi: SandboxCpi, cid: str) -> Any:
    return replace(SandboxCpi.inspect_server_group(cpi, cid), state="live")


def forgets_members(cpi: SandboxCpi, cid: str) -> Any:
    return replace(SandboxCpi.inspect_server_group(cpi, cid), members=())


def grows_too_big(cpi: SandboxCpi, requirements: Any) -> Any:
    return SandboxCpi.calculate_vm_cloud_properties(cpi, {"cpu": 16, "ram": 32768, "ephemeral_disk_size": 1024})


def another_cid(cpi: SandboxCpi, metadata: Any, *, mark: Mark) -> str:
    return SandboxCpi.create_server_group(cpi, metadata, mark=replace(mark, intent=Ids().intent()))


def sunny_check(cpi: SandboxCpi, needs: Any = None) -> Any:
    return [replace(item, ok=True) for item in SandboxCpi.check(cpi, needs)]


MUTANTS: list[tuple[str, Mutant, str]] = [
    ("create_vm", fresh_mark, "test_the_same_mark_answers_the_first_vm"),
    ("create_vm", fresh_mark, "test_the_same_mark_at_the_same_time_makes_one_vm"),
    ("create_vm", leaks, "test_a_vm_that_fits_nowhere_says_why"),
    ("has_vm", lambda cpi, cid: True, "test_a_vm_is_made_seen_and_deleted"),
    ("has_vm", lambda cpi, cid: True, "test_ids_that_no_vm_has_get_typed_answers"),
    ("vm_owner", lambda cpi, cid: None, "test_a_vm_tells_whose_mark_it_carries"),
    ("vm_owner", lambda cpi, cid: cpi.runtime.director_uuid, "test_a_vm_without_a_mark_has_no_owner"),
    ("vm_owner", lambda cpi, cid: None, "test_the_owner_of_a_missing_vm_is_an_error"),
    ("delete_vm", lambda cpi, cid: None, "test_a_vm_is_made_seen_and_deleted"),
    ("delete_vm", deletes_disks, "test_a_persistent_disk_outlives_its_vm_and_moves_on"),
    ("reboot_vm", vendor_error, "test_ids_that_no_vm_has_get_typed_answers"),
    ("reboot_vm", no_remedy, "test_ids_that_no_vm_has_get_typed_answers"),
    ("attach_disk", lambda cpi, vm, disk: "", "test_the_hint_says_something_and_stays_the_same"),
    ("detach_disk", lambda cpi, vm, disk: None, "test_a_disk_is_attached_listed_and_detached"),
    ("get_disks", lambda cpi, vm: [], "test_a_disk_is_attached_listed_and_detached"),
    ("resize_disk", shrinks, "test_a_disk_grows_and_does_not_shrink"),
    ("calculate_vm_cloud_properties", grows_too_big, "test_it_is_the_smallest_and_steady"),
    ("calculate_vm_cloud_properties", grows_too_big, "test_what_no_size_offers_is_refused"),
    ("create_server_group", another_cid, "test_a_group_exists_before_its_first_vm"),
    ("create_server_group", another_cid, "test_the_same_mark_finds_the_first_group"),
    ("create_server_group", overwrites, "test_a_name_that_an_operator_uses_is_refused"),
    ("delete_server_group", careless_delete, "test_a_group_with_a_member_of_ours_is_not_deleted"),
    ("delete_server_group", careless_delete, "test_a_group_with_a_foreign_member_is_not_deleted"),
    ("inspect_server_group", always_live, "test_a_group_deleted_behind_our_back_is_missing_and_says_so"),
    ("inspect_server_group", forgets_members, "test_a_vm_joins_and_leaves"),
    ("update_server_group", lambda cpi, cid, metadata: None, "test_security_groups_can_be_exchanged"),
    ("find", lambda cpi, kind, mark: None, "test_every_kind_is_found_by_its_mark"),
    ("find", any_director, "test_the_same_intent_of_another_director_is_not_ours"),
    ("survey", partial_list, "test_every_kind_can_be_listed_completely"),
    ("survey", truncated, "test_pages_cover_everything_once_and_cost_few_calls"),
    ("survey", unfiltered, "test_a_filter_of_the_cloud_is_honoured"),
    ("delete_object", careless_delete_object, "test_what_differs_from_the_expected_is_kept"),
    ("delete_object", lambda *_: None, "test_what_is_as_expected_is_deleted_and_only_that"),
    ("capabilities", false_refusal, "test_what_is_declared_unsupported_refuses"),
    ("capabilities", undocumented_refusal, "test_every_refusal_has_a_reason_and_a_citation"),
    ("check", sunny_check, "test_check_refuses_a_need_that_cannot_be_met_with_the_remedy"),
    (
        "info",
        lambda cpi: {"api_version": 1, "stemcell_formats": ["raw"]},
        "test_info_names_a_version_that_directors_take_and_its_formats",
    ),
]


class MutantBed(SandboxBed):
    mutation: tuple[str, Mutant] | None = None

    def open(self, director_uuid: str | None = None) -> Cpi:
        cpi = super().open(director_uuid)
        if self.mutation:
            name, mutant = self.mutation
            cpi.__class__ = type("Mutant", (SandboxCpi,), {name: mutant})
        return cpi


@pytest.mark.parametrize(("method", "mutant", "test"), MUTANTS)
def test_a_bad_driver_is_noticed(method: str, mutant: Mutant, test: str, tmp_path: Path) -> None:
    bed = MutantBed(tmp_path)
    bed.mutation = (method, mutant)
    with pytest.raises((AssertionError, pytest.fail.Exception, CpiError)):
        _run(bed, test)


@pytest.mark.parametrize("test", sorted({test for _, _, test in MUTANTS}))
def test_the_same_test_passes_the_good_driver(test: str, tmp_path: Path) -> None:
    _run(MutantBed(tmp_path), test)


def _run(bed: SandboxBed, test: str) -> None:
    lab = Lab(bed)
    TESTS[test](lab)
    lab.close()
