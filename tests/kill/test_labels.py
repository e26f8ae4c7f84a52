"""The scenario passes through every label of every flow, but for those that only a death or a fault leads to."""

from __future__ import annotations

from tests.kill.labels import all_labels, labels_in
from tests.kill.matrix import Matrix

# A new node has the disk that its step has just made, or a kept one; here that has the size that it shall have.
NEVER = {"node.create.change_disk"}
# Only after an answer was lost, a VM came up broken or late; the fault matrix goes there.
AFTER_FAULTS = {
    "disk.attach.await_up",
    "node.create.await_up",
    "node.create.intend",
    "node.create.retire",
    "node.create.want_another_disk",
    "node.recreate.await_up",
    "node.recreate.want_another_disk",
    "node.update.await_up",
    "node.update.want_another_disk",
}


# Work that only a cleanup begins; its own tests kill it.
BY_CLEANUP = ("node.reclaim.", "cleanup.", "sweep.", "survey.")
# Tasks of one step with one label that may be repeated; their own tests do so.
BY_HAND = ("node.destroy.", "node.health.", "group.repair.", "cloud.grant.", "cloud.prove.")
# Only on clouds whose living VMs can change their group, which the sandbox's cannot; vSphere's tests kill it.
NEVER |= {"node.update.regroup"}


def test_every_label_is_reached_or_known_to_need_a_fault(matrix: Matrix) -> None:
    reached = labels_in(matrix.recording.kinds())
    known = {label for label in all_labels() if not label.startswith((*BY_CLEANUP, *BY_HAND))}
    assert known - reached == NEVER | AFTER_FAULTS
    assert not reached & (NEVER | AFTER_FAULTS)
