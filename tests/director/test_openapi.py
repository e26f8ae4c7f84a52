"""The OpenAPI document is true: generated requests never break the Director, and its answers are as described."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.process.state_folder import StateFolder
from coterie.ids import Ids
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.settings import load
from tests.ledger.views import rows

TOKEN = "a-token-for-the-generated-requests"
CREDENTIALS = {"Authorization": f"Bearer {TOKEN}"}
OPEN = {("GET", "/livez")}
NAME_IN_THE_LEDGER = "kafka"
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppContext]:
    """An application context whose ledger has a row of every kind."""
    folder: Path = tmp_path_factory.mktemp("state")
    state_folder = StateFolder(folder)
    state_folder.prepare()
    ledger = Ledger.open(state_folder.database)
    identity = ensure_director(ledger, "test", Ids())
    _furnish(ledger)
    settings = load({"state": str(folder)}, {"HOME": str(folder)})
    yield AppContext(ledger, identity, settings, state_folder, token=TOKEN, guarded=True)
    ledger.close()


def _furnish(ledger: Ledger) -> None:
    rows.deployment(ledger, "kafka")
    rows.group(ledger, "g1", state="intended", cid=None)
    uuid = rows.node(ledger, "broker", 0, server_group="g1", addresses={"net": "10.0.0.4"}, spec={"cpu": 1})
    rows.node(ledger, "broker", 1, state="failing", problem={"code": "x", "what": "y"})
    rows.cloud_object(ledger, "d1", node=uuid, ref="broker/0")
    rows.cloud_object(ledger, "d2", state="kept")
    rows.task(ledger, 1, state="done", ended_at=2000.0, report={"steps": {"done": 1}, "failures": []})
    rows.task(ledger, 2)
    rows.stage(ledger, 2, 0, total=1)
    rows.step(ledger, 1, 2)
    rows.event(ledger, 1, 1)
    rows.conductor(ledger, "c1")
    rows.put(ledger, "stemcells", name="debian-12", version="1.1", cloud_properties={}, formats=[], created_at=1.0)


@pytest.fixture(scope="module")
def described(furnished: AppContext) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", build(furnished), headers=CREDENTIALS)


def _operations() -> list[tuple[str, str, GenerationMode]]:
    """Each operation with valid requests, and with invalid ones where it has input that could be wrong."""
    paths = build(cast(AppContext, None)).openapi()["paths"]
    found = [(method.upper(), path, operation) for path, ms in paths.items() for method, operation in ms.items()]
    fitting = [(method, path, GenerationMode.POSITIVE) for method, path, _ in found]
    taking = [one for one in found if one[2].get("parameters") or one[2].get("requestBody")]
    return fitting + [(method, path, GenerationMode.NEGATIVE) for method, path, _ in taking]


@pytest.mark.parametrize(("method", "path", "mode"), _operations())
def test_generated_requests_get_described_answers(described: Any, method: str, path: str, mode: GenerationMode) -> None:
    @hypothesis.settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=described[path][method].as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        if mode is GenerationMode.POSITIVE:  # else most requests would use the oldest version, which shows the least
            case.headers.setdefault("Coterie-API-Version", "latest")
        case.call_and_validate(checks=CHECKS, headers=CREDENTIALS)

    run()


@pytest.mark.parametrize(("method", "path"), sorted({(method, path) for method, path, _ in _operations()} - OPEN))
def test_nothing_is_readable_without_a_token(described: Any, furnished: AppContext, method: str, path: str) -> None:
    @hypothesis.settings(
        max_examples=3,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=described[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def run(case: Any) -> None:
        case.headers.pop("Authorization", None)
        case.headers["Coterie-API-Version"] = "latest"  # an unsupported version is refused before anything else
        answer = case.call()
        assert answer.status_code == 401, answer.text
        assert answer.json()["code"] == "unauthenticated"
        assert NAME_IN_THE_LEDGER not in answer.text.replace(case.formatted_path, "")

    run()


def test_it_is_openapi_3_1_and_every_operation_documents_its_problems(furnished: AppContext) -> None:
    document = build(furnished).openapi()
    assert document["openapi"].startswith("3.1")
    lacking = [
        f"{method} {path}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/v1/") and "default" not in operation["responses"]
    ]
    assert lacking == []


def test_every_resource_in_the_seed_is_shown_as_described(furnished: AppContext) -> None:
    from tests.director.asgi import Client

    client = Client(build(furnished))
    try:
        for path in ("nodes/kafka/broker/0", "tasks/1", "tasks/2", "groups/g1", "disks/d2", "objects/d1", "conductors"):
            assert client.get(f"/v1/{path}", **CREDENTIALS).status == 200, path
    finally:
        client.close()
