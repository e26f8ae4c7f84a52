"""When to try again: how often, and how long to rest in between. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

from coterie.errors import CoterieError


@dataclass(frozen=True, slots=True)
class Retry:
    tries: int = 6
    first_s: float = 0.5
    longest_s: float = 30.0
    longest_asked_s: float = 600.0  # for a cloud that asks for time
    keyless_s: float = 30.0  # between two looks for a key, which never end: somebody has to bring it

    def delay(self, error: CoterieError, attempt: int, chance: random.Random) -> float | None:
        """Seconds to rest after the `attempt`-th failure (1, 2, …), or None when it is time to give up."""
        if not error.retryable or attempt >= self.tries:
            return None
        asked = error.details.get("retry_after")
        if isinstance(asked, int | float):
            return min(self.longest_asked_s, max(0.0, float(asked)))
        backoff: float = min(self.longest_s, self.first_s * 2 ** (attempt - 1))
        return backoff * (0.5 + chance.random() / 2)
