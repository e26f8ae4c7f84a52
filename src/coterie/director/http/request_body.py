"""Request bodies that are YAML or JSON: read with a typed error for other types, and documented as both."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from coterie.errors import UsageError

M = TypeVar("M", bound=BaseModel)
_YAML = ("text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml", "text/plain")


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
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError("the body is not JSON", why=str(error), remedy="correct it, or send text/yaml") from error
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
