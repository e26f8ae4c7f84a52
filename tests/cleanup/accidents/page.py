"""The section "Accidents" of docs/cleanup.md: the list, and which driver runs which. Written by `make docs`."""

from __future__ import annotations

from pathlib import Path

from tests.cleanup.accidents import ACCIDENTS
from tests.cleanup.accidents.listing import LACKS, LEFT_OUT

PAGE = Path(__file__).parents[3] / "docs" / "cleanup.md"
_BEGIN, _END = "<!-- accidents: written by `make docs` -->\n", "<!-- end of accidents -->\n"


def table() -> str:
    """`x`: the suite runs it on this driver; a letter: the reason why not."""
    reasons = [reason for lacks in LACKS.values() for reason in lacks.values()]
    letters = {reason: chr(ord("a") + n) for n, reason in enumerate(dict.fromkeys(reasons))}
    lines = [f"| # | accident | what happens | {' | '.join(LACKS)} |", f"|---|---|---|{'---|' * len(LACKS)}"]
    used = set()
    for one in ACCIDENTS:
        skipped = [one.reason_to_skip(driver) for driver in LACKS]
        used |= {reason for reason in skipped if reason}
        cells = " | ".join(letters[reason] if reason else "x" for reason in skipped)
        lines.append(f"| {one.number} | {one.name} | {one.outcome} | {cells} |")
    legend = [f"{letter}: {reason.why} ({reason.citation})" for reason, letter in letters.items() if reason in used]
    left_out = [f"{driver} ({reason.why}: {reason.citation})" for driver, reason in LEFT_OUT.items()]
    return "\n".join([*lines, "", "; ".join(legend) + ".", "", f"It does not run on {'; '.join(left_out)}.", ""])


def renew(text: str) -> str:
    """The page with the table of today."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return before + _BEGIN + table() + _END + after


if __name__ == "__main__":
    PAGE.write_text(renew(PAGE.read_text()))
