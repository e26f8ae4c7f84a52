"""The table is whole: it holds the contract's methods, no others, and both directions agree on every one of them."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from coterie.cpi.contract import Cpi, Mark
from coterie.cpi.wire import METHODS, answer, read_response, write_request

ABSTRACT = sorted(Cpi.__abstractmethods__)


def test_the_table_holds_every_method_of_the_contract_and_only_those() -> None:
    assert sorted(name for name, method in METHODS.items() if method.of_cpi) == ABSTRACT
    assert [name for name, method in METHODS.items() if not method.of_cpi] == ["cleanup"]


@pytest.mark.parametrize("name", ABSTRACT)
def test_the_table_has_the_arguments_of_the_python_method(name: str) -> None:
    parameters = inspect.signature(getattr(Cpi, name)).parameters
    positional = [p for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    assert len(METHODS[name].arguments) == len(positional)
    assert (METHODS[name].marks is not None) == (
        "mark" in parameters and parameters["mark"].kind is inspect.Parameter.KEYWORD_ONLY
    )


@pytest.mark.parametrize("name", sorted(METHODS))
@pytest.mark.parametrize("version", [2, 3])
def test_what_our_client_writes_our_server_performs_and_our_client_reads(
    name: str, version: int, server: Any, samples: dict[str, list[Any]]
) -> None:
    method = METHODS[name]
    server.cleanup = lambda cpi, director, known, options: {"swept": known}
    spoken = [one.shape.read(value) for one, value in zip(method.arguments, samples[name], strict=True)]

    request = write_request(method, spoken, {"director_uuid": "d"}, version)
    result = read_response(method, answer(request, server.open, server.new_mark, server.cleanup), version)

    if name == "cleanup":
        assert result == {"swept": {"vm": ["i-1"]}}
        return
    assert result == server.answers.get(name)
    called, arguments, keywords = server.calls[-1]
    assert called == name
    assert list(arguments) == spoken[: len(method.spoken(version))]
    assert ("mark" in keywords) == (method.marks is not None)


def test_the_client_writes_the_mark_into_the_context(samples: dict[str, list[Any]]) -> None:
    mark = Mark("d" * 36, "0" * 26)
    request = json.loads(write_request(METHODS["create_disk"], [1, {}, None], {"director_uuid": "d"}, 2, mark))

    assert request["context"] == {"director_uuid": "d", "coterie": {"mark": {"director": "d" * 36, "intent": "0" * 26}}}
    assert request["api_version"] == 2


def test_the_client_leaves_the_version_out_of_the_first_info() -> None:
    assert "api_version" not in json.loads(write_request(METHODS["info"], [], {"director_uuid": "d"}, None))
