"""Which labels the flows have, and which of them a run has passed through."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping

from coterie.engine.flow import Flow
from coterie.flows import FLOWS

_COMMITTED = re.compile(r"([a-z.]+)\.([a-z_]+)→")


def all_labels(flows: Mapping[str, Flow] = FLOWS) -> set[str]:
    """`flow.label` of every flow."""
    return {f"{name}.{label}" for name, flow in flows.items() for label in _labels(flow)}


def labels_in(kinds: Iterable[str]) -> set[str]:
    """The labels whose commits are among these kinds of points."""
    return {f"{flow}.{label}" for kind in kinds for flow, label in _COMMITTED.findall(kind)}


def _labels(flow: Flow) -> set[str]:
    found = inspect.getmembers(type(flow), inspect.isfunction)
    return {name for name, method in found if not name.startswith("_") and _is_label(method)}


def _is_label(method: object) -> bool:
    signature = inspect.signature(method)  # type: ignore[arg-type]  # getmembers answers functions
    return list(signature.parameters) == ["self", "work"] and signature.return_annotation == "Move"
