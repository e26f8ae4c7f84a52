"""Spans of time on the command line: 90s, 15m, 24h, 7d; a bare number is seconds."""

from __future__ import annotations

import re

import click

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


class Span(click.ParamType[float]):
    name = "SPAN"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        given = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw]?)", str(value))
        if given is None:
            self.fail(f"{value!r} is no span of time; for example 90s, 15m, 24h, 7d", param, ctx)
        return float(given[1]) * _UNITS[given[2]]
