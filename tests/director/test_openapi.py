"""The OpenAPI document is true: generated requests never break the Director, its answers are as described, and each
operation is seen to succeed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from coterie.director.app import build
from coterie.director.middleware.api_version import _FIELDS
from coterie.sandbox import datacenter
from tests.director.asgi import openapi_document
from tests.director.populated import TOKEN, Call, Populated, populated

CREDENTIALS = {"Authorization": f"Bearer {TOKEN}"}
LATEST = {"Coterie-API-Version": "latest"}
OPEN = ("GET /livez", "GET /readyz")
NAME_IN_THE_LEDGER = "web/0"
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
FEW = hypothesis.settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
UNSUPPORTED = {"POST /v1/clouds/{name}/grant": "its driver sandbox cannot grant rights"}  # the answer is 501


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    with populated(tmp_path_factory.mktemp("director")) as made:
        yield made


@pytest.fixture(autouse=True, scope="module")
def _sandboxes_are_closed(there: Populated) -> Iterator[None]:
    """After the last test: all of them use one."""
    yield
    while datacenter._open:
        datacenter._open.popitem()[1].close()


@pytest.fixture(scope="module")
def described(there: Populated) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", build(there.context), headers=CREDENTIALS)


def _operations() -> dict[str, dict[str, Any]]:
    paths = openapi_document()["paths"]
    return {f"{method.upper()} {path}": one for path, methods in paths.items() for method, one in methods.items()}


def _find(described: Any, operation: str) -> Any:
    method, path = operation.split(" ")
    return described[path][method]


def _checks(operation: str) -> Any:
    return CHECKS[1:] if operation in UNSUPPORTED else CHECKS


def _case(described: Any, operation: str, call: Call, headers: dict[str, str]) -> Any:
    given: dict[str, Any] = {} if call.body is None else {"body": call.body}
    return _find(described, operation).Case(
        path_parameters=call.path, query=call.query, headers=headers, media_type=call.media_type, **given
    )


@pytest.mark.parametrize("operation", _operations())
def test_a_known_call_is_refused_without_a_token_and_succeeds_with_it(
    described: Any, there: Populated, operation: str
) -> None:
    call = there.call(operation)
    if operation not in OPEN:
        case = _case(described, operation, call, LATEST)
        case.headers.pop("Authorization", None)
        answer = case.call()
        assert answer.status_code == 401, answer.text
        assert answer.json()["code"] == "unauthenticated"
        assert NAME_IN_THE_LEDGER not in answer.text
    case = _case(described, operation, call, {**LATEST, **CREDENTIALS})
    answer = case.call_and_validate(checks=_checks(operation), headers=CREDENTIALS)
    if operation in UNSUPPORTED:
        assert answer.status_code == 501 and UNSUPPORTED[operation] in answer.text
    else:
        assert 200 <= answer.status_code < 300, answer.text


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("operation", [name for name in _operations() if name.startswith("GET ")])
def test_an_older_version_gets_described_answers(
    described: Any, there: Populated, operation: str, version: str
) -> None:
    case = _case(described, operation, there.call(operation), {"Coterie-API-Version": version, **CREDENTIALS})
    answer = case.call_and_validate(checks=_checks(operation), headers=CREDENTIALS)
    assert answer.status_code == 200 or answer.json()["code"] == "version_too_old", answer.text


@pytest.mark.parametrize("operation", _operations())
def test_generated_requests_about_what_exists_get_described_answers(
    described: Any, there: Populated, operation: str
) -> None:
    """Half of the requests name what exists, the others anything."""
    known = there.call(operation).path
    some = _find(described, operation)
    existing = some.as_strategy(path_parameters=known) if known else some.as_strategy()

    @FEW
    @hypothesis.given(case=st.one_of(existing, some.as_strategy()) if known else existing)
    def run(case: Any) -> None:
        # Else most requests would use the oldest version, which shows the least.
        case.headers.setdefault("Coterie-API-Version", "latest")
        case.call_and_validate(checks=_checks(operation), headers=CREDENTIALS)

    run()


@pytest.mark.parametrize(
    "operation", [name for name, one in _operations().items() if one.get("parameters") or one.get("requestBody")]
)
def test_generated_invalid_requests_get_described_answers(described: Any, operation: str) -> None:
    @FEW
    @hypothesis.given(case=_find(described, operation).as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def run(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, headers=CREDENTIALS)

    run()


def test_no_answer_requires_a_field_that_an_older_version_hides() -> None:
    """What the calls above show is only as old as their rows; here each schema of an answer is read."""
    document = openapi_document()
    schemas, required = document["components"]["schemas"], {}
    for operation, one in _operations().items():
        for name in _names_of_schemas(one["responses"], schemas, set()):
            required[operation] = required.get(operation, set()) | set(schemas[name].get("required", ()))
    assert len(required) > 60
    lacking = {name: found for name, fields in required.items() if (found := fields & _FIELDS.keys())}
    refused = [name for name in lacking if name.startswith("GET /v1/ring")]  # whole to 1.0, as its field is
    assert lacking.keys() == {*refused} and all(found == {"conductor_group"} for found in lacking.values())


def _names_of_schemas(part: Any, schemas: dict[str, Any], seen: set[str]) -> set[str]:
    """All that a part of the document refers to, also through others."""
    if isinstance(part, list):
        return seen.union(*(_names_of_schemas(one, schemas, seen) for one in part))
    if not isinstance(part, dict):
        return seen
    name = str(part.get("$ref", "")).rpartition("/")[2]
    if name in schemas and name not in seen:
        seen.add(name)
        _names_of_schemas(schemas[name], schemas, seen)
    for one in part.values():
        _names_of_schemas(one, schemas, seen)
    return seen


def test_it_is_openapi_3_1_and_every_operation_documents_its_problems() -> None:
    document = openapi_document()
    assert document["openapi"].startswith("3.1")
    lacking = [name for name, one in _operations().items() if "/v1/" in name and "default" not in one["responses"]]
    assert lacking == []
