"""Which labels the flows have, and which of them a run has passed through."""

from __future__ import annotations

import re
from collections.abc import Iterable

from coterie.engine.flow import Flows
from coterie.flows import FLOWS

_COMMITTED = re.compile(r"([a-z.]+)\.([a-z_]+)→")


def all_labels(flows: Flows = FLOWS) -> set[str]:
    """`flow.label` of every flow."""
    return {f"{name}.{label}" for name, flow in flows.items() for label in flow.labels}


def labels_in(kinds: Iterable[str]) -> set[str]:
    """The labels whose commits are among these kinds of points."""
    return {f"{flow}.{label}" for kind in kinds for flow, label in _COMMITTED.findall(kind)}
