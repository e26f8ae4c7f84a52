"""HTTP around the front: EC2's and STS's query protocol, and EBS direct under /snapshots. Listens on loopback only, and
believes any signature that names an access key."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from xml.sax.saxutils import escape

from coterie.sandbox import errors
from coterie.sandbox.datacenter import Account
from coterie.sandbox.fronts.aws.front import Front
from coterie.sandbox.fronts.aws.protocol import Service
from coterie.sandbox.fronts.aws.refusals import ApiError, refusal
from coterie.sandbox.fronts.aws.rows import ACCOUNT
from coterie.sandbox.fronts.http_server import FrontHandler, FrontServer, Reply

_BLOCK = re.compile(r"^/snapshots/([^/]+)/blocks/(\d+)$")
_COMPLETION = re.compile(r"^/snapshots/completion/([^/]+)$")
_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


class Server(FrontServer):
    """Serves one account until closed; `endpoint` is the URL for clients."""

    def __init__(self, account: Account, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), _Handler)
        self.endpoint = f"http://{host}:{self.server_address[1]}"
        self.front = Front(account)
        self.ec2 = Service("ec2")


class _Handler(FrontHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.read_body()
        if "Credential=" not in self.headers.get("Authorization", ""):
            self._xml(401, _error("AuthFailure", "AWS was not able to validate the provided access credentials"))
            return
        path = urlsplit(self.path).path
        if self.headers.get("X-Amz-Target", "").endswith(".GetServiceQuota"):
            self._quota(body)
        elif path.startswith("/snapshots"):
            self._ebs(path, body)
        else:
            self._query(dict(parse_qsl(body.decode(), keep_blank_values=True)))

    do_PUT = do_POST
    do_GET = do_POST

    def _query(self, given: dict[str, str]) -> None:
        action = given.get("Action", "")
        if action == "GetCallerIdentity":
            self._xml(200, _identity())
            return
        try:
            answer = self.server.front.run(action, self.server.ec2.read(action, given))
            inside = self.server.ec2.write(action, answer)
        except errors.AnswerLost:
            self.break_off()
            return
        except errors.SandboxError as error:
            found = refusal(error, action)
            self._xml(found.status, _error(found.code, found.message))
            return
        except ApiError as error:
            self._xml(error.status, _error(error.code, error.message))
            return
        head = f'<{action}Response xmlns="{_NAMESPACE}"><requestId>{uuid.uuid4()}</requestId>'
        self._xml(200, f"{head}{inside}</{action}Response>")

    def _quota(self, body: bytes) -> None:
        try:
            self._json(200, self.server.front.service_quota(json.loads(body)))
        except ApiError as error:
            self._json(error.status, {"__type": error.code, "message": error.message})

    def _ebs(self, path: str, body: bytes) -> None:
        front = self.server.front
        try:
            if path == "/snapshots":
                self._json(201, front.start_snapshot(json.loads(body)))
            elif block := _BLOCK.match(path):
                upload, digest = front.upload(block[1]), base64.b64encode(hashlib.sha256(body).digest()).decode()
                if digest != self.headers.get("x-amz-Checksum"):
                    raise ApiError("ValidationException", "The checksum does not match the data")
                upload.blocks[int(block[2])] = body
                self._json(201, {}, {"x-amz-Checksum": digest, "x-amz-Checksum-Algorithm": "SHA256"})
            elif completion := _COMPLETION.match(path):
                upload = front.upload(completion[1])
                if str(len(upload.blocks)) != self.headers.get("x-amz-ChangedBlocksCount"):
                    raise ApiError("ValidationException", "The number of changed blocks does not match")
                upload.state = "completed"
                self._json(202, {"Status": "completed"})
            else:
                raise ApiError("ResourceNotFoundException", "there is no such path", 404)
        except ApiError as error:
            self._json(error.status, {"Message": error.message}, {"x-amzn-ErrorType": error.code})

    def _json(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        self.send(Reply(status, document, headers or {}))

    def _xml(self, status: int, text: str) -> None:
        raw = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
        self.send(Reply(status, raw, {"Content-Type": "text/xml"}))


def _error(code: str, message: str) -> str:
    inside = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
    return f"<Response><Errors><Error>{inside}</Error></Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"


def _identity() -> str:
    inside = f"<Account>{ACCOUNT}</Account><UserId>AIDA</UserId><Arn>arn:aws:iam::{ACCOUNT}:user/coterie</Arn>"
    return (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
        f"<GetCallerIdentityResult>{inside}</GetCallerIdentityResult>"
        f"<ResponseMetadata><RequestId>{uuid.uuid4()}</RequestId></ResponseMetadata></GetCallerIdentityResponse>"
    )
