"""Alert rules and the board name metrics and labels that the programs really export, and commands that exist."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from coterie.director.services.metrics import _FAMILIES
from tests.deploy.words import accept
from tests.director.asgi import Client
from tests.director.conftest import client, context

__all__ = ["client", "context"]
FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
OPERATING = (FOLDER.parents[1] / "docs" / "operating.md").read_text()
RULES: list[dict[str, Any]] = [
    rule for group in YAML(typ="safe").load(FOLDER / "alerts.yml")["groups"] for rule in group["rules"]
]
BOARD = json.loads((FOLDER / "board.json").read_text())
QUERIES = [
    *[str(rule["expr"]) for rule in RULES],
    *[target["expr"] for panel in BOARD["panels"] for target in panel["targets"]],
]
ON_CONDUCTORS = {"coterie_conductor_steps"}  # on a conductor's own page


def test_metrics_are_served(client: Client) -> None:
    served = set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.MULTILINE)) | ON_CONDUCTORS
    named = {name.removesuffix("_bucket") for query in QUERIES for name in re.findall(r"coterie_\w+", query)}
    assert len(named) > 12 and named <= served


@pytest.mark.parametrize("query", QUERIES)
def test_labels_are_those_of_the_metric(query: str) -> None:
    known = {family.name: set(family.labels) for family in _FAMILIES}
    documented = re.findall(r"`(coterie_\w+)\{([\w,…]+)\}`", OPERATING)
    known |= {name: {*known.get(name, ()), *labels.split(",")} for name, labels in documented}
    (metric,) = {name.removesuffix("_bucket") for name in re.findall(r"coterie_\w+", query)}
    used = {label for labels in re.findall(r"by \(([^)]*)\)", query) for label in labels.split(", ")}
    used |= set(re.findall(r"(\w+)(?:=~|!=|=)\"", query))
    assert used - {"instance", "le"} <= known.get(metric, set())


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule["annotations"]["action"].startswith("coterie ")])
def test_the_command_of_an_alert_exists(rule: dict[str, Any]) -> None:
    command = rule["annotations"]["action"].replace("{{ $labels.state }}", "dead").replace("{{ $labels.cloud }}", "lab")
    accept(shlex.split(command)[1:])


def test_the_board_is_up_to_date() -> None:
    assert runpy.run_path(str(FOLDER / "board.py"))["board"]() == BOARD, "run deploy/monitoring/board.py"
