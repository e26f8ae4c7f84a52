"""Counts and traces the calls that leave for a cloud."""

from __future__ import annotations

from coterie.engine.fence import Observer
from coterie.telemetry.process import CPI_ERRORS, CPI_SECONDS


def measured(driver: str, also: Observer | None) -> Observer:
    """An observer that counts by driver, method and code, and tells another one too."""

    def observe(method: str, seconds: float, problem: BaseException | None) -> None:
        CPI_SECONDS.observe(seconds, driver, method)
        if problem is not None:
            CPI_ERRORS.add(driver, method, _code(problem))
        if also is not None:
            also(method, seconds, problem)

    return observe


def _code(problem: BaseException) -> str:
    return str(getattr(problem, "code", None) or type(problem).__name__)
