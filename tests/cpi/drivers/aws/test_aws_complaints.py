"""What other drivers of AWS got wrong, by the words of those who complained."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from peers.aws_bed import AwsBed

from coterie.cpi.contract import InvalidCall, Mark, OutcomeUnknown, VMCreationFailed
from coterie.cpi.drivers.aws.machines import ended
from coterie.ids import Ids


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[AwsBed]:
    made = AwsBed(tmp_path)
    yield made
    made.close()


class _Deaf(BaseHTTPRequestHandler):
    """Counts requests, and closes the connection in place of an answer."""

    seen: list[str]

    def do_POST(self) -> None:
        self.seen.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.connection.close()

    def log_message(self, format: str, *arguments: object) -> None: ...


def test_a_lost_answer_is_not_retried_by_the_sdk(bed: AwsBed) -> None:
    """botocore's own retries made three volumes of one call."""
    handler = type("Deaf", (_Deaf,), {"seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bed.more = {"endpoint": f"http://127.0.0.1:{server.server_address[1]}"}
    mark = Mark(bed.director_uuid, Ids().intent())
    with pytest.raises(OutcomeUnknown):
        bed.open().create_disk(1024, {}, mark=mark)
    server.shutdown()
    assert len(handler.seen) == 1 and f"ClientToken={mark.intent}" in handler.seen[0]


def test_terminated_while_starting_says_why() -> None:
    row = {"InstanceId": "i-1", "StateReason": {"Code": "Client.InternalError", "Message": "the KMS key is disabled"}}
    error = ended(row)
    assert isinstance(error, VMCreationFailed)
    assert error.why == "Client.InternalError: the KMS key is disabled" and "KMS" in error.remedy


@pytest.mark.parametrize("key", ["coterie-intent", "aws:cloudformation:stack-name"])
def test_users_tags_do_not_overwrite_the_controllers(bed: AwsBed, key: str) -> None:
    with pytest.raises(InvalidCall, match="reserved"):
        bed.open().set_vm_metadata("i-0123", {key: "x"})


def test_the_machines_own_role_is_never_taken_silently(bed: AwsBed) -> None:
    from coterie.cpi.drivers.aws.properties import CLOUD

    (mistake,) = CLOUD.mistakes({"region": "eu-central-1"})
    assert mistake.key == "access_key_id" and "credentials_source" in mistake.remedy
