"""The client and the OpenAPI document say the same, and each of its methods does what the document says of it."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import coterie.client
from coterie.client import Client, Pages, resources
from coterie.client.api import Answer, Api
from coterie.client.problems import problem_of
from coterie.director.app import build
from coterie.sandbox import datacenter
from tests.client.generate import Method, class_name, list_methods, render
from tests.director import asgi
from tests.director.asgi import openapi_document
from tests.director.populated import TOKEN, Call, Populated, populated

METHODS = {f"{one.noun}.{one.name}": one for one in list_methods(openapi_document())}
# A light stemcell is the call that is known of both.
NOT_CALLED = {
    "stemcells.upload": "tests/client/test_requests.py uploads one",
    "clouds.grant": "the sandbox cannot grant rights",
}


def test_the_code_is_what_the_document_gives() -> None:
    """If not: `make docs`, and look at what it changed."""
    folder = Path(coterie.client.__file__).parent
    for name, text in render(openapi_document()).items():
        assert (folder / name).read_text(encoding="utf-8") == text, f"{name} is not what the document gives: make docs"


def test_every_noun_and_operation_of_the_document_is_there() -> None:
    client = Client("unix:/nowhere")
    assert {one.noun for one in METHODS.values()} == {name for name in vars(client) if not name.startswith("_")}
    for one in METHODS.values():
        assert type(getattr(client, one.noun)).__name__ == class_name(one.noun)
        assert callable(getattr(getattr(client, one.noun), one.name))
    operations = {(one.verb, one.path) for one in METHODS.values()}
    paths = openapi_document()["paths"]
    assert operations == {(verb.upper(), path) for path, verbs in paths.items() for verb in verbs}


def test_what_is_posted_without_a_key_changes_nothing() -> None:
    """The client repeats it after a cut. Another one belongs here only if that does no harm."""
    keyless = {name for name, one in METHODS.items() if one.verb == "POST" and "Idempotency-Key" not in one.headers}
    assert keyless == {"plans.make", "recoveries.plan", "clouds.check", "console.make_link"}


class InProcess:
    """Requests of a client to an application in this process, and what was sent."""

    def __init__(self, app: Any) -> None:
        self.caller = asgi.Client(app)
        self.sent: list[tuple[str, str, Any]] = []
        self.client = Client(api=Api(cast(Any, None), tries=1))
        cast(Any, self.client._api)._send = self._send

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        self.sent.append((method, path, body))
        reply = self.caller.send(method, path, body, {**headers, "Authorization": f"Bearer {TOKEN}"})
        if reply.status >= 300:
            raise problem_of(reply.status, reply.body)
        is_json = "json" in reply.headers.get("content-type", "")
        return Answer(reply.status, reply.headers, reply.json if is_json else reply.text)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    with populated(tmp_path_factory.mktemp("director")) as made:
        yield made
    while datacenter._open:
        datacenter._open.popitem()[1].close()


@pytest.fixture(scope="module")
def in_process(there: Populated) -> Iterator[InProcess]:
    made = InProcess(build(there.context))
    yield made
    made.caller.close()


def run(client: Client, one: Method, call: Call) -> Any:
    inside = {parameter.name for parameter in one.parameters if parameter.place == "path"}
    assert call.path.keys() == inside
    words = {parameter.name: parameter.word for parameter in one.parameters}
    given = {words[name]: value for name, value in {**call.query, **(call.body or {})}.items()}
    return getattr(getattr(client, one.noun), one.name)(*call.path.values(), **given)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in NOT_CALLED])
def test_each_method_sends_what_is_described_and_returns_what_is_declared(
    there: Populated, in_process: InProcess, name: str
) -> None:
    one = METHODS[name]
    call = there.call(f"{one.verb} {one.path}")
    del in_process.sent[:]
    found = run(in_process.client, one, call)
    rows = list(found) if isinstance(found, Pages) else [found]
    verb, path, body = in_process.sent[0]
    assert verb == one.verb and path.partition("?")[0] == one.path.format(**call.path)
    optional = {parameter.name for parameter in one.parameters if not parameter.required}
    wanted = {key: value for key, value in (call.body or {}).items() if value is not None or key not in optional}
    assert (body or {}) == wanted
    declared = typing.get_type_hints(getattr(type(getattr(in_process.client, one.noun)), one.name), _namespace())
    kind = typing.get_args(declared["return"])[0] if isinstance(found, Pages) else declared["return"]
    for row in rows:
        _require(row, kind)


def _namespace() -> dict[str, Any]:
    return {**vars(typing), **vars(coterie.client), **vars(resources), **vars(coterie.client.operations)}


def _require(found: Any, kind: Any) -> None:
    """Every field that is declared as always there, with a value of its type."""
    if typing.is_typeddict(kind):
        assert found.keys() >= kind.__required_keys__, f"{kind.__name__} lacks a field"
        for name, inner in typing.get_type_hints(kind).items():
            if name in found:
                _require(found[name], inner)
        return
    if isinstance(kind, types.UnionType) and found is not None:
        declared = [one for one in typing.get_args(kind) if typing.is_typeddict(one)]
        if declared:
            _require(found, declared[0])
            return
    assert isinstance(found, _runtime(kind)), f"{found!r} is no {kind}"
    values = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    inner = [one for one in (typing.get_args(kind) or ()) if typing.is_typeddict(one)]
    for value in values if inner else ():
        _require(value, inner[0])


def _runtime(kind: Any) -> Any:
    if kind is Any:
        return object
    if isinstance(kind, types.UnionType):
        return tuple(_runtime(one) for one in typing.get_args(kind))
    if typing.is_typeddict(kind):
        return dict
    origin = typing.get_origin(kind) or kind
    return (int, float) if origin is float else origin
