"""The methods and types of `coterie.client`, made from the OpenAPI document: `python -m tests.client.generate FOLDER`
writes them. A class for each noun, a method for each operation, a TypedDict for each resource."""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.director.asgi import openapi_document

Json = dict[str, Any]
_MADE = "\n\nMade from the OpenAPI document by `make docs`; changes by hand are lost.\n"
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WIDTH = 110
_NAMES = {
    "index": "list",
    "show": "get",
    "show_metrics": "metrics",
    "add with application/gzip": "upload",
}
# Sent by every request, or it changes the type of the answer.
_LEFT_OUT = ("Coterie-API-Version", "Last-Event-ID", "format")
_PAGING = ("limit", "cursor")
# Their values may contain slashes, which divide the path.
_OF_SEVERAL_PARTS = ("which",)


def render(document: Json) -> dict[str, str]:
    """The text of each file, by its name."""
    schemas: Json = document["components"]["schemas"]
    methods = list_methods(document)
    shown = _closure({name for one in methods for name in one.resources}, schemas)
    return {"operations.py": _format(_operations(methods)), "resources.py": _format(_resources(shown, schemas))}


def list_methods(document: Json) -> list[Method]:
    return [
        method
        for path, operations in document["paths"].items()
        for verb, about in operations.items()
        for method in _methods(path, verb.upper(), about, document["components"]["schemas"])
    ]


@dataclass(frozen=True)
class Parameter:
    name: str
    place: str  # path, query, body
    type: str
    required: bool

    @property
    def word(self) -> str:
        return f"{self.name}_" if keyword.iskeyword(self.name) else self.name

    @property
    def declared(self) -> str:
        if self.required:
            return f"{self.word}: {self.type}"
        return f"{self.word}: {self.type if 'None' in self.type.split(' | ') else f'{self.type} | None'} = None"


@dataclass(frozen=True)
class Method:
    noun: str
    name: str
    verb: str
    path: str
    text: str
    parameters: tuple[Parameter, ...]
    headers: frozenset[str]
    answer: Json | None  # null: no body
    schemas: Json
    media_type: str | None = None  # of a body that is a file
    may_be_empty: bool = False

    @property
    def resources(self) -> set[str]:
        found = {name for name in _refs([self.answer]) if not name.startswith("Listing_")}
        return found | ({self.row} if self.row else set())

    @property
    def row(self) -> str | None:
        """What it lists."""
        name = next(iter(_refs([self.answer])), "")
        return next(iter(_refs(self.schemas[name]["properties"]["items"]))) if name.startswith("Listing_") else None

    @property
    def is_paged(self) -> bool:
        return set(_PAGING) <= {one.name for one in self.parameters}

    @property
    def returns(self) -> str:
        if self.row:
            return f"Pages[{self.row}]"
        if self.answer is None:
            return "None"
        found = _parameter_type(self.answer)
        found = "int" if found == "Accepted" else found
        return f"{found} | None" if self.may_be_empty else found

    def lines(self) -> Iterator[str]:
        yield f"    def {self.name}({', '.join(self._signature())}) -> {self.returns}:"
        yield from _docstring(self.text, 8)
        yield from (f"        {line}" for line in self._statements())

    def _signature(self) -> Iterator[str]:
        shown = [one for one in self.parameters if one.name not in _PAGING]
        yield "self"
        yield from (one.declared for one in shown if one.place == "path")
        if self.media_type:
            yield "file: BinaryIO"
        named = [one.declared for one in shown if one.place != "path"]
        named.sort(key=lambda declared: "=" in declared)
        named += ["idempotency_key: str | None = None"] if "Idempotency-Key" in self.headers else []
        named += ["if_match: Match | None = None"] if "if-match" in self.headers else []
        yield from ["*", *named] if named else []

    def _statements(self) -> Iterator[str]:
        if self.row:
            paged = "" if self.is_paged else ", paged=False"
            yield f"return Pages(self._api, {self._address()}, {self._given('query')}{paged})"
            return
        call = f"self._api.call({', '.join(self._arguments())})"
        if self.returns == "None":
            yield call
        elif self.returns in ("int", "int | None"):
            yield f"answer: Accepted = {call}"
            yield f'return answer["task_id"]{" if answer else None" if self.may_be_empty else ""}'
        else:
            yield f"answer: {self.returns} = {call}"
            yield "return answer"

    def _arguments(self) -> Iterator[str]:
        has_body = any(one.place == "body" for one in self.parameters)
        yield f'"{self.verb}"'
        yield self._address()
        if any(one.place == "query" for one in self.parameters):
            yield f"query={self._given('query')}"
        if has_body:
            yield f"body={self._body()}"
        if self.media_type:
            yield f'body=file, media_type="{self.media_type}"'
        if "Idempotency-Key" in self.headers:
            yield "key=idempotency_key or new_key()"
        elif self.verb == "POST":
            yield "harmless=True"
        if "if-match" in self.headers:
            yield "if_match=if_match"

    def _address(self) -> str:
        kinds = {one.name: one.type for one in self.parameters if one.place == "path"}

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if kinds[name] == "int":
                return f"{{{name}}}"
            return f"{{{'parts' if name in _OF_SEVERAL_PARTS else 'part'}({name})}}"

        path = re.sub(r"{(\w+)}", value, self.path)
        return f'f"{path}"' if kinds else f'"{path}"'

    def _given(self, place: str) -> str:
        found = [one for one in self.parameters if one.place == place and one.name not in _PAGING]
        return "{" + ", ".join(f'"{one.name}": {one.word}' for one in found) + "}"

    def _body(self) -> str:
        fields = [one for one in self.parameters if one.place == "body"]
        sure = [f'"{one.name}": {one.word}' for one in fields if one.required]
        maybe = ", ".join(f'"{one.name}": {one.word}' for one in fields if not one.required)
        if maybe and not sure:
            return f"without_none({{{maybe}}})"
        return "{" + ", ".join([*sure, *([f"**without_none({{{maybe}}})"] if maybe else [])]) + "}"


def _methods(path: str, verb: str, about: Json, schemas: Json) -> Iterator[Method]:
    """One, or one for each kind of body that differs in more than its form."""
    function = about["operationId"].removesuffix(re.sub(r"\W", "_", f"{path}_{verb.lower()}")).rstrip("_")
    asked = [one for one in about.get("parameters", ()) if one["name"] not in _LEFT_OUT]
    outside = [
        Parameter(one["name"], one["in"], _parameter_type(one["schema"]), one["required"])
        for one in asked
        if one["in"] != "header"
    ]
    bodies: Json = about.get("requestBody", {}).get("content", {})
    good = {code: one for code, one in about["responses"].items() if code.startswith("2")}
    answers = [answer for one in good.values() if (answer := _answer(one)) is not None]
    assert len(answers) <= 1, f"{verb} {path} has several answers"
    for media_type, body in (bodies or {"": {}}).items():
        is_file = body.get("schema", {}).get("format") == "binary"
        if media_type == "text/yaml":
            continue  # the same as the text in JSON
        inside = [] if is_file else _fields(body.get("schema", {}), schemas)
        names = [one.name for one in [*outside, *inside]]
        assert len(names) == len(set(names)), f"{verb} {path} has two parameters of one name"
        yield Method(
            noun=re.sub(r"\W", "_", about["tags"][0]),
            name=_NAMES.get(f"{function} with {media_type}") or _NAMES.get(function, function),
            verb=verb,
            path=path,
            text=about.get("description", "").strip().split("\n\n")[0],
            parameters=(*outside, *inside),
            headers=frozenset(one["name"] for one in asked if one["in"] == "header"),
            answer=answers[0] if answers else None,
            schemas=schemas,
            media_type=media_type if is_file else None,
            may_be_empty=bool(answers) and "204" in good,
        )


def _answer(response: Json) -> Json | None:
    content = response.get("content", {})
    if "application/json" in content:
        found: Json = content["application/json"]["schema"]
        return found
    return {"type": "string"} if content else None


def _fields(schema: Json, schemas: Json) -> list[Parameter]:
    """Of a body. One that is not given is null in the client, and not sent: so null itself may mean nothing else."""
    whole = schemas[_name(schema["$ref"])] if "$ref" in schema else schema
    required = whole.get("required", ())
    found = []
    for name, about in whole.get("properties", {}).items():
        assert name in required or about.get("default") is None or "None" not in _type(about).split(" | "), name
        found.append(Parameter(name, "body", _parameter_type(about), name in required))
    return found


def _operations(methods: list[Method]) -> str:
    nouns: dict[str, list[Method]] = {}
    for one in sorted(methods, key=lambda one: (one.noun, one.name)):
        nouns.setdefault(one.noun, []).append(one)
    for noun, found in nouns.items():
        names = [one.name for one in found]
        assert len(names) == len(set(names)), f"two operations of {noun} have one name"
    used = sorted({_type_name(name) for one in methods for name in one.resources})
    lines = [
        f'"""Every operation of the REST API as a method, by noun.{_MADE}"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping, Sequence",
        "from typing import TYPE_CHECKING, Any, BinaryIO, Literal",
        "",
        "from coterie.client.api import Api, new_key, part, parts, without_none",
        "from coterie.client.pages import Pages",
        "",
        "if TYPE_CHECKING:",
        f"    from coterie.client.resources import ({', '.join(used)},)",
        "",
        "Match = str | Mapping[str, Any]  # an ETag, or a resource as it was returned",
        "",
    ]
    for noun, found in nouns.items():
        lines += ["", f"class {class_name(noun)}:", "    def __init__(self, api: Api) -> None:"]
        lines += ["        self._api = api", *[line for one in found for line in ("", *one.lines())], ""]
    return "\n".join(lines)


def _resources(names: list[str], schemas: Json) -> str:
    lines = [
        f'"""What the REST API returns. A Director of another release may leave fields out or add some.{_MADE}"""',
        "",
        "from typing import Any, Generic, NotRequired, TypedDict, TypeVar",
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
    return "\n".join(lines)


def _resource(name: str, schema: Json) -> Iterator[str]:
    fields: Json = schema.get("properties", {})
    required = set(schema.get("required", ()))
    described = schema.get("description", "").strip().split("\n\n")[0]
    typed = {field: _type(about) for field, about in fields.items()}
    typed = {field: kind if field in required else f"NotRequired[{kind}]" for field, kind in typed.items()}
    if any(keyword.iskeyword(field) for field in fields):
        yield f"{_type_name(name)} = TypedDict('{_type_name(name)}', {{"
        yield from (f'    "{field}": "{kind}",' for field, kind in typed.items())
        yield "})"
        return
    yield f"class {_type_name(name)}(TypedDict):"
    yield from _docstring(described, 4)
    yield from [""] if described else []
    yield from (f"    {field}: {kind}" for field, kind in typed.items())
    yield from [] if fields or described else ["    pass"]


def _closure(names: Iterable[str], schemas: Json) -> list[str]:
    """These and all that they refer to, each after what it refers to."""
    found: list[str] = []

    def take(name: str) -> None:
        for one in sorted(set(_refs(schemas[name]))):
            take(one)
        if name not in found:
            found.append(name)

    for name in sorted(names):
        take(name)
    return found


def _type(schema: Json) -> str:
    if "$ref" in schema:
        return _type_name(_name(schema["$ref"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return f"Literal[{', '.join(map(repr, schema.get('enum', [schema.get('const')])))}]"
    if schema.get("type") == "array":
        return f"list[{_type(schema.get('items', {}))}]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_type(values)}]" if isinstance(values, dict) else "dict[str, Any]"
    return _SCALARS.get(schema.get("type", ""), "Any")


def _parameter_type(schema: Json) -> str:
    """What a caller gives. Where `list` is a method it is no type."""
    return _type(schema).replace("list[", "Sequence[")


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield _name(value["$ref"])
        for one in value.values():
            yield from _refs(one)
    elif isinstance(value, list):
        for one in value:
            yield from _refs(one)


def _name(ref: str) -> str:
    return ref.rpartition("/")[2]


def _type_name(name: str) -> str:
    return re.sub(r"\W", "", name)


def class_name(noun: str) -> str:
    return "".join(word.capitalize() for word in noun.split("_")) + "Operations"


def _docstring(text: str, indent: int) -> Iterator[str]:
    if text:
        quoted = '"""' + " ".join(text.split()).replace("\\", "\\\\") + '"""'
        yield from textwrap.wrap(quoted, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


def _format(text: str) -> str:
    for command in (["check", "--fix-only", "--select", "I,F401"], ["format"]):
        words = [sys.executable, "-m", "ruff", *command, "--config", "pyproject.toml", "--quiet"]
        done = subprocess.run(
            [*words, "--stdin-filename", "src/coterie/client/made.py", "-"], input=text, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        text = done.stdout
    return text


if __name__ == "__main__":
    for file, content in render(openapi_document()).items():
        Path(sys.argv[1], file).write_text(content, encoding="utf-8")
