"""Data as JSON: the API's resource unchanged, readable."""

from __future__ import annotations

import json
from typing import Any


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
