"""What every part of a document has in common: closed, frozen, and silent about its input in errors."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Input is hidden in pydantic's own messages because `properties` and `env` may hold secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)
