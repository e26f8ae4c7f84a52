"""Canaries in every place that a user may write, also in documents with mistakes, and a cloud that repeats its
requests: none is found again in the log, events, answers of all operations that read to callers of each role, metrics,
plans, the doctor's report, the list of processes (during the calls of the cloud, too) or the database."""

from __future__ import annotations

import base64
import json
import logging
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from coterie.cli.link.examine import bundle
from coterie.client import Client
from coterie.client.api import Answer, Api
from coterie.conductor.process import Conductor
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.ledger.store import Ledger
from coterie.requests.machine_secrets import seal_stored
from coterie.seal.keys import KeyFile
from coterie.telemetry import log as service_log
from tests.director.access.conftest import Make, Person

# A foreign CPI program that repeats its whole request in its log, on stderr and in its errors, as it came and escaped.
PROGRAM = f"""\
#!{sys.executable} -IS
import base64, json, subprocess, sys
text = sys.stdin.read()
with open(sys.argv[0] + ".processes", "a") as seen:
    subprocess.run(["ps", "axwwe"], stdout=seen, check=True)
request = json.loads(text)
sys.stderr.write(text)
def say(result, error=None):
    print(json.dumps({{"result": result, "error": error, "log": text}}))
if request["method"] == "info":
    say({{"api_version": 2, "stemcell_formats": ["raw"]}})
elif request["method"] == "create_stemcell":
    say("img-1")
elif request["method"] == "has_vm":
    say(False)
else:
    env = request["arguments"][5] if len(request["arguments"]) > 5 else None
    flat = " ".join(str(one) for one in request["context"].values())
    coded = base64.b64encode(json.dumps([env, request["context"]]).encode()).decode()
    first_boot = str((env or {{}}).get("user_data"))
    message = " ".join([text, json.dumps(text), repr(env), flat, coded, first_boot])
    say(None, {{"type": "Bosh::Clouds::CloudError", "ok_to_retry": False, "message": message}})
"""


class Canaries:
    """Values that occur nowhere by accident."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def new(self) -> str:
        self.all.append(f"Canary{len(self.all):02d}x{len(self.all) * 7919 % 9973:04d}")
        return self.all[-1]

    def found_in(self, text: str) -> list[str]:
        return [one for one in self.all if one in text or _coded(one, text)]


def _coded(canary: str, text: str) -> bool:
    forms = [base64.b64encode(b"." * before + canary.encode()).decode()[4:-4] for before in range(3)]
    return any(form in text for form in forms)


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    service_log.to_file(tmp_path / "service.log")
    yield tmp_path / "service.log"
    root.handlers[:], root.level = before, level


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "cpi"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


@pytest.fixture
def conductor(context: AppContext, program: Path) -> Iterator[Conductor]:
    folder = context.state_folder.path
    keys = KeyFile(folder / "conductor.key")
    made = Conductor(context.ledger, "test", state_folder=folder, workers=2, keys=keys, exec_paths=[str(program)])
    made.start()
    yield made
    made.drain(10)


def _env(new: Any) -> dict[str, Any]:
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{new()}\n{new()}\n-----END RSA PRIVATE KEY-----\n"
    return {
        "bosh": {
            "mbus": {"urls": [f"nats://nats:{new()}@10.0.0.6:4222"], "cert": {"private_key": pem}},
            "password": new(),
            "blobstores": [{"provider": "dav", "options": {"user": new(), "password": new()}}],
            "agent": {"settings": {"tls": {"key": new(), "ca": new()}}},
        },
        "psk": new(),
        "jwt": f"eyJhbGciOiJub25lIn0.{new()}.sig",
        "passwords": [new(), new(), [new()]],
        "auth": f"Basic {base64.b64encode(f'user:{new()}'.encode()).decode()}",
        "bearer": f"Bearer {new()}",
        "aws_session": new(),
        "encryption_key": new(),
        "token_value": new(),
        "dsn": f"host=db user=app password={new()} dbname=x",
        "odbc": f"Server=db;Uid=app;Pwd={new()};",
        "proxy": f"http://proxy:{new()}@proxy.example:3128",
        "json": json.dumps({"client": {"anything": new()}}),
        "user_data_b64": base64.b64encode(f"#!/bin/sh\nexport WORD={new()}\n".encode()).decode(),
        "quoted": f'{new()}"\\&<',
        "multi\nline": new(),
        "deep": {"a": {"b": {"c": {"d": [{"e": new()}]}}}},
        "name": new(),
        "public": new(),
        "id": new(),
        "number": new() and 918273645,
    }


def _cloud_config(program: Path, new: Any) -> str:
    properties = {
        "user": new(),
        "signing_material": new(),
        "endpoint": f"https://svc:{new()}@cloud.example/{new()}",
        "nested": {"list": [new(), {"deep": new()}], "text": f"a\n{new()}\nb"},
        "region": new(),
        "password": new(),
        "json_key": json.dumps({"private_key": new()}),
    }
    return json.dumps(
        {
            "clouds": [
                {"name": "lab", "driver": "exec", "properties": {"path": str(program), "properties": properties}}
            ],
            "azs": [{"name": "z1", "cloud": "lab", "cloud_properties": {"admin_password": new()}}],
            "vm_types": [{"name": "small", "cloud_properties": {"api_token": new()}}],
            "networks": [
                {
                    "name": "default",
                    "type": "manual",
                    "subnets": [
                        {
                            "range": "10.9.0.0/24",
                            "gateway": "10.9.0.1",
                            "azs": ["z1"],
                            "cloud_properties": {"shared_secret": new()},
                        }
                    ],
                }
            ],
        }
    )


def _manifest(new: Any) -> str:
    env = _env(new)
    group = {
        "name": "web",
        "instances": 1,
        "azs": ["z1"],
        "vm_type": "small",
        "stemcell": "default",
        "networks": [{"name": "default"}],
        "env": env,
        "user_data": f"#cloud-config\nusers:\n- name: {new()}\n  passwd: {new()}\nruncmd:\n- [login, {new()}]\n",
        # A secret that is also written elsewhere is hidden there by its value.
        "tags": {"note": env["psk"]},
    }
    head = {"name": "web", "stemcells": [{"alias": "default", "name": "debian-12", "version": "1.1"}]}
    return f"# remember: {env['psk']}\n" + json.dumps({**head, "instance_groups": [group]}, indent=1)


def _mistaken(config: str, manifest: str, new: Any) -> Iterator[tuple[str, str, Any]]:
    """Requests that are refused, with canaries where the mistakes are."""
    clouds, web = json.loads(config), json.loads(manifest.partition("\n")[2])
    lab, group = clouds["clouds"][0], web["instance_groups"][0]
    drivers = {
        "openstack": {"auth_url": f"http://u:{new()}@h", "password": [new()], "x": new()},
        "cloudstack": {"endpoint": f"http://u:{new()}@h", "api_key": 5, "secret_key": [new()], "settle_s": new()},
        "vsphere": {"host": f"http://u:{new()}@h", "password": {"a": new()}, "datacenter": {"a": new()}},
        "sandbox": {"password": new(), "settle_s": new(), "faults": new()},
        "exec": {"path": "/x", "properties": [new()]},
        "unknown": {"x": new()},
    }
    for properties in (new(), [new()]):
        yield "PUT", "/v1/cloud-config", {"text": json.dumps({**clouds, "clouds": [{**lab, "properties": properties}]})}
        yield "POST", "/v1/clouds", {**lab, "properties": properties}
    for driver, properties in drivers.items():
        cloud = {**lab, "driver": driver, "properties": properties}
        yield "PUT", "/v1/cloud-config", {"text": json.dumps({**clouds, "clouds": [cloud]})}
    yield "PUT", "/v1/cloud-config", {"text": f"clouds:\n- {{name: lab, properties: {{password: {new()}, : : }}\n"}
    head = "name: web\ninstance_groups:\n- name: x\n  env:\n    password: "
    texts = [
        f"{head}{new()}\n   b: {new()}\n",  # no YAML
        f"{head}{new()}\n    password: {new()}\n",  # a key that is there twice
        f"{head}*{new()}\n",
        f"{head}!!binary {new()}\n",
        f"{head}!{new()}\n",
        f"{head}!{new()}!{new()}\n",
        json.dumps({**web, "env": {"a": new()}}),
    ]
    parts = [
        {"env": new()},
        {"env": [new()]},
        {"user_data": {"a": new()}},
        {"envv": {"x": new()}},
        {"tags": {"a": [new()]}},
    ]
    parts += [{"user_data": f"{new()} " * 5000}, {"networks": [{"name": "none", "x": new()}]}]
    texts += [json.dumps({**web, "instance_groups": [{**group, **part}]}) for part in parts]
    for text in texts:
        for method, path in (("POST", "/v1/plans"), ("PUT", "/v1/deployments/web"), ("POST", "/v1/recoveries/plan")):
            yield method, path, {"manifest": text, "manifest_file": "web.yml"}
    for body in (
        {"manifest": {"a": new()}},
        {"manifest": manifest, "cloud_config": [new()]},
        {"x": new()},
        [new()],
        new(),
    ):
        yield "POST", "/v1/plans", body


def _pages(task: int, node: str) -> list[str]:
    """All operations that read, about what is there."""
    values = {"name": "lab", "which": node, "task": task, "path": "instance_groups.env"}
    found = [
        path.format_map(_Known(values))
        for path, methods in build(cast(Any, None)).openapi()["paths"].items()
        if "get" in methods
    ]
    return [*found, "/v1/deployments/web", "/v1/deployments/web/manifest", "/v1/stemcells/debian-12/1.1"]


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "none"


def test_no_canary_is_found_again(
    program: Path,
    canaries: Canaries,
    log_file: Path,
    person: Make,
    conductor: Conductor,
    context: AppContext,
) -> None:
    admin = person("admin")
    config, manifest = _cloud_config(program, canaries.new), _manifest(canaries.new)
    stemcell = {"name": "debian-12", "version": "1.1", "cloud_properties": {"image": "x", "api_token": canaries.new()}}
    assert seal_stored(context.ledger)
    assert len(canaries.all) >= 40
    seen = {}
    for n, (method, path, mistaken) in enumerate(_mistaken(config, manifest, canaries.new)):
        refused = admin.send(method, path, mistaken)
        assert 400 <= refused.status < 500, refused.text
        seen[f"mistake {n} {path}"] = refused.text
    assert admin.send("PUT", "/v1/cloud-config", {"text": config}).status == 200
    assert admin.send("POST", "/v1/stemcells", stemcell).status == 201
    body = {"manifest": manifest, "manifest_file": "web.yml"}
    for query in ("", "?text=detail", "?format=text"):
        seen[f"plan {query}"] = admin.send("POST", f"/v1/plans{query}", body).text
    reply = admin.send("PUT", "/v1/deployments/web", body)
    assert reply.status == 202, reply.text
    task = reply.json["task_id"]
    assert _wait_for_end(admin, task)["state"] == "failed"
    node = admin.get("/v1/nodes").json["items"][0]["uuid"]
    callers = {"admin": admin, "operator": person("operator"), "viewer": person("viewer")}
    callers["team"] = person("viewer", "red", name="red")
    for role, caller in callers.items():
        seen.update((f"{role} {page}", caller.get(page).text) for page in _pages(task, node))
    seen["check"] = admin.send("POST", "/v1/clouds/lab/check").text
    seen["doctor"] = json.dumps(bundle(Client(api=_in_process(admin))), default=str)
    seen["log"] = log_file.read_text()
    seen["processes"] = subprocess.run(["ps", "axwwe"], capture_output=True, text=True, check=True).stdout
    seen["processes meanwhile"] = Path(f"{program}.processes").read_text()
    assert str(program) in seen["processes meanwhile"]
    seen.update(_tables(context.ledger))
    assert "<redacted>" in seen["log"] and "<redacted>" in seen["table events"], "the cloud's texts got there"
    leaks = {place: found for place, text in seen.items() if (found := canaries.found_in(text))}
    assert leaks == {}
    assert not [place for place, text in seen.items() if re.search(r"\b918273645\b", text)]


def _tables(ledger: Ledger) -> dict[str, str]:
    """The whole database, without what users wrote in plain where nothing is sealed: cloud properties of azs, VM types,
    networks and stemcells."""
    from coterie.ledger.tables import metadata

    found = {}
    with ledger.read() as tx:
        for table in metadata.sorted_tables:
            rows = [[_leave_out_plain(one) for one in row] for row in tx.execute(table.select())]
            found[f"table {table.name}"] = json.dumps(rows, default=str, ensure_ascii=False)
    return found


_IN_PLAIN = {"admin_password", "api_token", "shared_secret"}


def _leave_out_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _leave_out_plain(one) for key, one in value.items() if key not in _IN_PLAIN}
    if isinstance(value, list):
        return [_leave_out_plain(one) for one in value]
    if isinstance(value, str) and value.startswith('{"clouds"'):  # the cloud config
        return _leave_out_plain(json.loads(value))
    return value


def _in_process(caller: Person) -> Api:
    """The API as commands use it, without a connection."""
    api = Api(cast(Any, None))

    def send(method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        reply = caller.send(method, path, body)
        return Answer(
            reply.status, reply.headers, reply.json if "json" in reply.headers["content-type"] else reply.text
        )

    cast(Any, api)._send = send
    return api


def _wait_for_end(caller: Person, task: int) -> dict[str, Any]:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        found: dict[str, Any] = caller.get(f"/v1/tasks/{task}").json
        if found["state"] not in ("queued", "running"):
            return found
        time.sleep(0.2)
    raise AssertionError(found)
