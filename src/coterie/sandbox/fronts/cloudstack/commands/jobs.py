"""Asking after jobs."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox.fronts.cloudstack import jobs
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.jobs import Job
from coterie.sandbox.fronts.cloudstack.listing import Row, time_words
from coterie.sandbox.fronts.cloudstack.refusals import INTERNAL, refuse


@answers("queryAsyncJobResult")
def query(call: Call) -> Row:
    call.needs("jobid")
    found = jobs.find(call.tx.db, call.params["jobid"])
    if found is None or not (call.caller.admin or found.caller.account == call.caller.account):
        raise refuse(f"Invalid parameter jobid value={call.params['jobid']}: entity does not exist")
    return _row(found)


@answers("listAsyncJobs")
def list_jobs(call: Call) -> Iterator[Row]:
    return map(_row, jobs.of_account(call.tx.db, call.tx.account))


def _row(job: Job) -> Row:
    row = {
        "jobid": job.id,
        "cmd": f"org.apache.cloudstack.api.command.{job.command}",
        "jobstatus": job.status,
        "jobprocstatus": 0,
        "jobresultcode": INTERNAL if job.status == jobs.FAILED else 0,
        "created": time_words(job.created_at),
        "completed": time_words(job.completed_at),
        "account": job.caller.account,
        "jobinstanceid": job.subject or None,
        "jobinstancetype": "None",
    }
    if job.status != jobs.PENDING:
        row |= {"jobresult": job.result, "jobresulttype": "object"}
    return row
