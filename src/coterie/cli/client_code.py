"""The typed client as code, made from the OpenAPI document: `python -m coterie.cli.client_code src/coterie/cli/link`.

A method for each operation, grouped by noun, and a TypedDict for each resource. Both modules need the standard library
only; the types are imported by type checkers alone.
"""

from __future__ import annotations

import keyword
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute

from coterie.director.app import build
from coterie.director.context import AppContext

_NOTE = "Generated from the OpenAPI document by\n`python -m coterie.cli.client_code src/coterie/cli/link`. Do not edit."
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_ACCEPTED, _WIDTH = "202", 110
Json = dict[str, Any]


def render(app: FastAPI) -> dict[str, str]:
    """File name → text."""
    document = app.openapi()
    schemas: Json = document["components"]["schemas"]
    found = [Operation(route, document["paths"][route.path_format], schemas) for route in _routes(app)]
    used = _closure({name for one in found for name in one.resources}, schemas)
    return {"operations.py": _operations(found), "resources.py": _resources(used, schemas)}


def _routes(app: FastAPI) -> list[APIRoute]:
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.path.startswith("/v1/")]
    return sorted(routes, key=lambda route: (str(route.tags[0]), route.path, _method(route)))


def _method(route: APIRoute) -> str:
    return min(route.methods or {"GET"})


class Operation:
    """One method of the client."""

    def __init__(self, route: APIRoute, path: Json, schemas: Json) -> None:
        self.noun = re.sub(r"\W", "_", str(route.tags[0]))
        self.method = _method(route)
        self.name = {"index": "list", "show": "get"}.get(route.name, route.name)
        self._about: Json = path[self.method.lower()]
        self._path = route.path_format
        self._schemas = schemas
        self._doc = (route.description or route.summary or "").strip().split("\n\n")[0]

    @property
    def resources(self) -> set[str]:
        schema = self._answer_schema()
        own = {_name_of(one["$ref"]) for one in _refs(schema)} | {
            _name_of(one["$ref"]) for one in _refs(self._body_schema() or {})
        }
        return {name for name in own if not name.startswith("Listing_")} | self._listed()

    def text(self) -> Iterator[str]:
        given = [one for one in self._parameters() if one["in"] == "path"]
        asked = [one for one in self._parameters() if one["in"] == "query"]
        wanted = [f"{_word(one['name'])}: {_type(one['schema'])}" for one in given]
        body = self._body_schema()
        wanted += [f"body: {_type(body)}"] if body else []
        filters = [one for one in asked if not (self._is_list() and one["name"] in ("limit", "cursor"))]
        options = [f"{_word(one['name'])}: {_optional(one['schema'])} = None" for one in filters]
        options += ["limit: int | None = None"] if self._is_list() else []
        wanted += ["*", *options] if options else []
        yield f"    def {self.name}({', '.join(['self', *wanted])}) -> {self._returns()}:"
        yield from _docstring(self._doc, "        ")
        yield from (f"        {line}" for line in self._call(asked, body is not None))

    def _call(self, asked: list[Json], has_body: bool) -> Iterator[str]:
        numbers = {one["name"] for one in self._parameters() if one["schema"].get("type") == "integer"}
        path = re.sub(r"{(\w+)}", lambda match: "{" + _as_part(match[1], numbers) + "}", self._path)
        shown = f'f"{path}"' if "{" in path else f'"{path}"'
        query = ", ".join(f'"{one["name"]}": {_word(one["name"])}' for one in asked)
        body = ", body" if has_body else ", None"
        if self._is_list():
            filters = ", ".join(
                f'"{one["name"]}": {_word(one["name"])}' for one in asked if one["name"] not in ("limit", "cursor")
            )
            yield f"found: {self._returns()} = self._api.list({shown}, {{{filters}}}, limit)"
            yield "return found"
        elif _ACCEPTED in self._about["responses"] and len(_good(self._about)) == 1:
            given = f", **{{{query}}}" if query else ""
            yield f'return self._api.start("{self.method}", {shown}{body}{given})'
        else:
            yield f'answer: {self._returns()} = self._api.send("{self.method}", {shown}, {{{query}}}{body}).body'
            yield "return answer"

    def _parameters(self) -> list[Json]:
        return list(self._about.get("parameters", ()))

    def _is_list(self) -> bool:
        return bool(self._listed())

    def _listed(self) -> set[str]:
        name = next((_name_of(one["$ref"]) for one in _refs(self._answer_schema())), "")
        if not name.startswith("Listing_"):
            return set()
        items = self._schemas[name]["properties"]["items"]["items"]
        return {_name_of(items["$ref"])} if "$ref" in items else set()

    def _returns(self) -> str:
        if self._is_list():
            return f"Listing[{next(iter(self._listed()))}]"
        if _ACCEPTED in self._about["responses"] and len(_good(self._about)) == 1:
            return "int"
        return _type(self._answer_schema()) if self._answer_schema() else "Any"

    def _answer_schema(self) -> Json:
        good = _good(self._about)
        content = self._about["responses"][good[0]].get("content", {}) if len(good) == 1 else {}
        found: Json = content.get("application/json", {}).get("schema", {})
        return found

    def _body_schema(self) -> Json | None:
        content = self._about.get("requestBody", {}).get("content", {})
        found: Json | None = content.get("application/json", {}).get("schema")
        return found


def _good(about: Json) -> list[str]:
    return [code for code in about["responses"] if code.startswith("2")]


def _operations(found: list[Operation]) -> str:
    nouns: dict[str, dict[str, Operation]] = {}
    for one in found:
        nouns.setdefault(one.noun, {}).setdefault(one.name, one)
    used = sorted({name for one in found for name in one.resources} | {"Listing"})
    lines = [
        f'"""Every operation of the API as a method with types. {_NOTE}"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING, Any, Literal",
        "",
        "from coterie.cli.link.api import Api, part, parts",
        "",
        "if TYPE_CHECKING:",
        f"    from coterie.cli.link.resources import {', '.join(used)}",
        "",
    ]
    for noun, methods in nouns.items():
        lines += [
            "",
            f"class {_class_name(noun)}:",
            "    def __init__(self, api: Api) -> None:",
            "        self._api = api",
        ]
        for _, one in sorted(methods.items()):
            lines += ["", *one.text()]
        lines += [""]
    lines += ["", "class Client:", '    """All nouns. Work that is started answers the number of its task."""', ""]
    lines += ["    def __init__(self, api: Api) -> None:", "        self.api = api"]
    lines += [f"        self.{noun} = {_class_name(noun)}(api)" for noun in nouns]
    return "\n".join(lines) + "\n"


def _resources(names: list[str], schemas: Json) -> str:
    lines = [
        f'"""What the API shows and takes. {_NOTE}"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar",
        "",
        'T = TypeVar("T")',
        "",
        "",
        "class Listing(TypedDict, Generic[T]):",
        '    """One page, or all pages as one. `next` is the cursor of the following one."""',
        "",
        "    items: list[T]",
        "    next: str | None",
        "",
    ]
    for name in names:
        lines += ["", *_resource(name, schemas[name]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _resource(name: str, schema: Json) -> Iterator[str]:
    yield f"class {_type_name(name)}(TypedDict):"
    yield from _docstring(schema.get("description", "").strip().split("\n\n")[0], "    ")
    yield ""
    required = set(schema.get("required", ()))
    for field, about in schema.get("properties", {}).items():
        kind = _type(about)
        yield f"    {field}: {kind if field in required else f'NotRequired[{kind}]'}"
    if not schema.get("properties"):
        yield "    pass"


def _closure(names: set[str], schemas: Json) -> list[str]:
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= {_name_of(one["$ref"]) for one in _refs(schemas[name])} - found
    return sorted(found)


def _type(schema: Json) -> str:
    if "$ref" in schema:
        return _type_name(_name_of(schema["$ref"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(map(repr, values))}]"
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_type(schema.get('items', {}))}]"
    if kind == "object":
        more = schema.get("additionalProperties")
        return f"dict[str, {_type(more)}]" if isinstance(more, dict) else "dict[str, Any]"
    return _SCALARS.get(str(kind), "Any")


def _optional(schema: Json) -> str:
    kind = _type(schema)
    return kind if kind == "Any" or "None" in kind.split(" | ") else f"{kind} | None"


def _refs(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value
        for one in value.values():
            yield from _refs(one)
    elif isinstance(value, list):
        for one in value:
            yield from _refs(one)


def _name_of(ref: str) -> str:
    return ref.rpartition("/")[2]


def _type_name(name: str) -> str:
    return re.sub(r"\W|_+$", "", name.replace("coterie__director__routes__", ""))


def _class_name(noun: str) -> str:
    return "".join(word.capitalize() for word in noun.split("_")) + "Operations"


def _word(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _as_part(name: str, numbers: set[str]) -> str:
    if name in numbers:
        return name
    return f"parts({name})" if name in ("which", "path") else f"part({name})"


def _docstring(text: str, indent: str) -> Iterator[str]:
    if text:
        quoted = f'"""{text}"""'.replace("\\", "\\\\")
        yield from textwrap.wrap(quoted, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def main(folder: str) -> None:
    """Formatted afterwards by `make docs`."""
    for name, text in render(build(cast(AppContext, None))).items():  # no context is needed to describe the API
        (Path(folder) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
