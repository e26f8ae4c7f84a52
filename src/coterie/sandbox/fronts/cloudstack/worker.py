"""Finishes jobs and expunges what has waited long enough, in threads beside the requests; goes on after a restart."""

from __future__ import annotations

import heapq
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.errors import SandboxError
from coterie.sandbox.fronts.cloudstack import configuration, entities, expunge, jobs
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import HANDLERS
from coterie.sandbox.fronts.cloudstack.definition import commands
from coterie.sandbox.fronts.cloudstack.jobs import Job
from coterie.sandbox.fronts.cloudstack.refusals import INTERNAL, ApiError, translate
from coterie.sandbox.fronts.cloudstack.reply import job_result
from coterie.sandbox.twist import Twist, Tx

_THREADS = 8
_LONGEST_REST_S = 0.5
_NEXT_LOOK_S = 0.01


class Worker:
    """One per front: a thread that watches the clock, and a few that work."""

    def __init__(self, datacenter: Datacenter) -> None:
        self._datacenter = datacenter
        self._due: list[tuple[float, str, Callable[[], None]]] = []
        self._news = threading.Condition()
        self._closed = False
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="cloudstack-job")
        self._swept_at = datacenter.clock()
        with datacenter.store.reading() as db:
            left = jobs.pending(db)
        for job in left:
            self.add(job)
        self._clock = threading.Thread(target=self._watch, name="cloudstack-clock", daemon=True)
        self._clock.start()

    def add(self, job: Job) -> None:
        self.at(job.run_at, job.id, lambda: self._finish(job))

    def soon(self, work: Callable[[], None]) -> None:
        """Something that is no job, such as a download; it may take long and say nothing."""
        self.at(self._datacenter.clock(), self._datacenter.ids.uuid(), work)

    def at(self, when: float, name: str, work: Callable[[], None]) -> None:
        with self._news:
            heapq.heappush(self._due, (when, name, work))
            self._news.notify()

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify()
        self._clock.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _watch(self) -> None:
        while True:
            with self._news:
                if self._closed:
                    return
                rest = self._due[0][0] - self._datacenter.clock() if self._due else _LONGEST_REST_S
                if rest > 0:
                    self._news.wait(min(rest, _LONGEST_REST_S))
                    work = None
                else:
                    work = heapq.heappop(self._due)[2]
            if work:
                self._pool.submit(work)
            self._sweep()

    def _sweep(self) -> None:
        """Expunge what was destroyed long ago, as often as the settings say."""
        datacenter = self._datacenter
        now = datacenter.clock()
        with datacenter.store.reading() as db:
            if now < self._swept_at + configuration.number(db, "expunge.interval"):
                return
        self._swept_at = now
        with datacenter.store.writing() as db:
            expunge.all_due(Tx(db, "", now, datacenter.ids))
            jobs.forget_old(db, now)

    def _finish(self, job: Job) -> None:
        datacenter = self._datacenter
        rest = 0.0
        try:
            with datacenter.store.writing() as db:
                if jobs.must_wait(db, job):
                    self.at(datacenter.clock() + _NEXT_LOOK_S, job.id, lambda: self._finish(job))
                    return
                call = self._call(db, job)
                result = HANDLERS[job.command.lower()].finish(call, job.subject)  # type: ignore[misc] # a job's desk has one
                jobs.end(db, job, jobs.SUCCEEDED, job_result(call, result), call.tx.now)
                rest = call.tx.answer_after_s
        except ApiError as error:
            self._on_failure(job, error)
        except SandboxError as error:
            self._on_failure(job, translate(error))
        except Exception as error:
            # clients would wait for ever for a job without an end
            self._on_failure(job, ApiError(INTERNAL, f"{type(error).__name__}: {error}"))
        if rest:
            datacenter.sleep(rest)

    def _on_failure(self, job: Job, error: ApiError) -> None:
        with self._datacenter.store.writing() as db:
            call = self._call(db, job)
            broken = HANDLERS[job.command.lower()].broken
            if broken:
                broken(call, job.subject)
            jobs.end(db, job, jobs.FAILED, error.wire(job.caller.admin), call.tx.now)

    def _call(self, db: sqlite3.Connection, job: Job) -> Call:
        datacenter = self._datacenter
        tx = Tx(db, job.caller.account, datacenter.clock(), datacenter.ids, Twist(broken_vm=job.broken_vm))
        call = Call(datacenter, tx, job.caller, commands()[job.command.lower()], dict(job.params), job.origin)
        entities.check(call)
        return call
