"""When to try again: how often, and how long to rest in between. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

from coterie.cpi.contract import Throttled
from coterie.errors import CoterieError


@dataclass(frozen=True, slots=True)
class Retry:
    tries: int = 6
    busy_tries: int = 25  # of a cloud that says "not so fast": with these rests, more than ten minutes
    first_s: float = 0.5
    longest_s: float = 30.0
    longest_asked_s: float = 600.0  # for a cloud that asks for time
    keyless_s: float = 30.0  # between two looks for a key, which never end: somebody has to bring it

    def delay(self, error: CoterieError, attempt: int, chance: random.Random) -> float | None:
        """Seconds to rest after the `attempt`-th failure (1, 2, …), or None when it is time to give up."""
        tries = max(self.tries, self.busy_tries) if isinstance(error, Throttled) else self.tries
        if not error.retryable or attempt >= tries:
            return None
        backoff = min(self.longest_s, self.first_s * 2.0 ** (attempt - 1)) * (0.5 + chance.random() / 2)
        asked = error.details.get("retry_after")
        least = float(asked) if isinstance(asked, int | float) else 0.0
        # who asks for little again and again gets more, and not from all of us at once
        return max(backoff, min(self.longest_asked_s, least))
