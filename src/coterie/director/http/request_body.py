"""Request bodies: JSON by one strict reader on every route, and on some routes YAML too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import loads
from coterie.errors import UsageError

M = TypeVar("M", bound=BaseModel)
_YAML = ("text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml", "text/plain")


class StrictRoute(APIRoute):
    """Reads JSON bodies strictly, whatever the route makes of them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return loads(await self.body())
        except Mismatch as error:
            # While the framework reads a body it passes on only its own exception.
            raise HTTPException(422, f"the body {error}") from error


class Body:
    @staticmethod
    def yaml_or(model: type[BaseModel]) -> dict[str, Any]:
        """The OpenAPI description of such a body."""
        content = {
            "text/yaml": {"schema": {"type": "string"}},
            "application/json": {"schema": model.model_json_schema()},
        }
        return {"requestBody": {"required": True, "content": content}}


async def read_document(request: Request, model: type[M], file: str) -> M:
    """The body as `model`; plain YAML becomes its field `text`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    raw = await request.body()
    if kind in _YAML:
        return _validate(model, {"text": _decode(raw), "file": file})
    if kind == "application/json":
        return read_json(raw, model)
    raise UsageError(
        f"a body of type {kind or 'nothing'} is not understood", remedy="send text/yaml or application/json"
    )


def read_json(raw: bytes, model: type[M]) -> M:
    try:
        value = loads(raw)
    except Mismatch as error:
        raise UsageError(f"the body {error}", remedy="correct it") from error
    return _validate(model, value)


def _validate(model: type[M], value: Any) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in error.errors()]) from error


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError("the body is not UTF-8", why=str(error), remedy="save the document as UTF-8") from error
