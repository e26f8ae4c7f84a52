"""The scenario passes through every label of every flow, but for those that only a death or a fault leads to."""

from __future__ import annotations

from tests.kill.labels import all_labels, labels_in
from tests.kill.matrix import Matrix

# Inherited, and never gone to: an update leaves the VM that it finds.
NEVER = {"node.update.retire", "node.update.intend", "node.update.create_vm"}
# Only after an answer was lost, a VM came up broken or late; the fault matrix goes there.
AFTER_FAULTS = {
    "node.create.await_up",
    "node.create.change_disk",
    "node.create.intend",
    "node.create.retire",
    "node.create.want_another_disk",
    "node.recreate.await_up",
    "node.recreate.create_disk",
    "node.recreate.want_another_disk",
    "node.update.await_up",
    "node.update.want_another_disk",
}


def test_every_label_is_reached_or_known_to_need_a_fault(matrix: Matrix) -> None:
    reached = labels_in(matrix.recording.kinds())
    assert all_labels() - reached == NEVER | AFTER_FAULTS
    assert not reached & (NEVER | AFTER_FAULTS)
