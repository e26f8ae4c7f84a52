"""What a driver's client needs of the runtime for each of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from coterie.cpi.contract import Runtime
from coterie.cpi.contract.methods import always_held
from coterie.cpi.kit.call_limit import CallLimit, call_limit
from coterie.cpi.kit.pace import PacedCall
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Permit:
    """For which Director a client calls its cloud, how many calls run at once, whether this process may still change
    the cloud, and which credentials of this machine it may use."""

    director_uuid: str
    limit: CallLimit
    require_lease: Callable[[], None] = always_held
    credential_sources: Sequence[str] = ()

    @contextmanager
    def call(self, name: str, *, changes: bool) -> Iterator[PacedCall]:
        """Around one request of the class `name`, at the lowest level. What changes something begins only while the
        lease is held: the call may have waited for its turn."""
        with self.limit.pace(name) as call:
            if changes:
                self.require_lease()
            yield call


def permit_of(cloud: str, runtime: Runtime, max_parallel_calls: int) -> Permit:
    limit = call_limit(cloud, max_parallel_calls, runtime.director_uuid)
    return Permit(runtime.director_uuid, limit, runtime.require_lease, runtime.credential_sources)
