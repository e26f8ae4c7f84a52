"""The program as its callers run it: one JSON object, exit 0, hardly any environment."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from coterie.bosh.client import fast_info
from coterie.cpi.contract import EVERY_SOURCE, Runtime
from coterie.cpi.load import driver_names, forms_of, open_cloud
from tests.bosh.program import DIRECTOR, Shop

INFO = b'{"method":"info","arguments":[],"context":{"director_uuid":"d"}}'


def one_object(done: subprocess.CompletedProcess[bytes]) -> dict[str, object]:
    assert done.returncode == 0
    assert done.stderr == b""
    envelope: dict[str, object] = json.loads(done.stdout)
    assert envelope.keys() == {"result", "error", "log"}
    return envelope


def test_info_with_nothing_but_a_path_in_the_environment(shop: Shop) -> None:
    assert one_object(shop.run(INFO))["result"] == {"api_version": 3, "stemcell_formats": ["sandbox", "sandbox-light"]}


def test_info_imports_neither_driver_nor_database_nor_contract(shop: Shop) -> None:
    words = (
        "import sys; sys.path.insert(0, sys.argv[1]); from coterie.bosh.client.in_process import respond;"
        "respond(sys.argv[2].encode(), sys.argv[3]);"
        "heavy = ('coterie.cpi.', 'coterie.ledger', 'dataclasses', 'typing');"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    source = fast_info.__file__.split("/coterie/")[0]
    told = subprocess.run(
        [sys.executable, "-IS", "-c", words, source, INFO.decode(), str(shop.config)], capture_output=True, check=True
    )
    assert told.stdout.decode().strip() == "[]"


def test_a_call_that_changes_nothing_imports_no_database(shop: Shop) -> None:
    words = (
        "import sys; from coterie.bosh.client.in_process import respond;"
        "respond(sys.argv[1].encode(), sys.argv[2]); print('sqlalchemy' in sys.modules)"
    )
    env = {"PYTHONPATH": fast_info.__file__.split("/coterie/")[0]}
    command = [sys.executable, "-c", words, shop.request("has_vm", "i-1").decode(), str(shop.config)]
    assert subprocess.run(command, env=env, capture_output=True, check=True).stdout.strip() == b"False"


def test_a_machine_s_life_alone_imports_nothing_that_is_slow(shop: Shop) -> None:
    """What would be half of such a call, or a part of it that is seen in `bench/cpi`."""
    words = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.path.append(sys.argv[2]);"
        "from coterie.bosh.client.in_process import respond;"
        "[respond(request.encode(), sys.argv[3], write=sys.stdout.buffer.write) for request in sys.argv[4:]];"
        "slow = ('sqlalchemy', 'alembic', 'dataclasses', 'inspect', 'importlib.metadata', 'asyncio');"
        "print([name for name in sys.modules if name.startswith(slow)])"
    )
    stemcell, cid = shop.stemcell(), shop.create_vm("agent-1", shop.stemcell())
    source = fast_info.__file__.split("/coterie/")[0]
    requests = [shop.vm_request("agent-2", stemcell, group="bosh-dep-web"), shop.request("delete_vm", cid)]
    command = [sys.executable, "-IS", "-c", words, source, sysconfig.get_path("purelib"), str(shop.config)]
    done = subprocess.run([*command, *(one.decode() for one in requests)], capture_output=True, check=True)
    assert b'"error": null' in done.stdout or b'"error":null' in done.stdout
    assert done.stdout.decode().endswith("}[]\n"), done.stdout


def test_the_program_ends_in_order(tmp_path: Path) -> None:
    """What was registered for the end is done, and threads that work are waited for."""
    words = (
        "import atexit, sys, threading, time; sys.path.insert(0, sys.argv[1]);"
        "from coterie.bosh.client.in_process import end_process;"
        "atexit.register(print, 'logged out');"
        "sys.argv[2] == 'thread' and threading.Thread(target=lambda: (time.sleep(0.2), print('worked'))).start();"
        "end_process(); print('went on')"
    )
    source = fast_info.__file__.split("/coterie/")[0]
    heard = {
        mode: subprocess.run([sys.executable, "-c", words, source, mode], capture_output=True, check=True, text=True)
        for mode in ("alone", "thread")
    }
    assert heard["alone"].stdout.split("\n") == ["logged out", ""]
    assert heard["thread"].stdout.split("\n") == ["went on", "worked", "logged out", ""]


@pytest.mark.parametrize("driver", [name for name in driver_names() if name != "exec"])
def test_info_of_each_driver_is_answered_from_its_file(driver: str, shop: Shop) -> None:
    """Without the driver being loaded, and as it says itself. What exec says depends on its program."""
    more = {"state": str(shop.folder / "x.db")} if driver == "sandbox" else {}
    runtime = Runtime(DIRECTOR, None, credential_sources=(EVERY_SOURCE,))  # type: ignore[arg-type] # info needs no coordinator
    opened = open_cloud(driver, "c", {**forms_of(driver)["cloud"].example, **more}, runtime)
    shop.config.write_text(json.dumps({"driver": driver}))
    answer = fast_info.info(str(shop.config))
    assert answer is not None and json.loads(answer)["result"] == opened.info()


def test_info_reads_formats_from_the_configuration(shop: Shop) -> None:
    shop.configure(stemcell_formats=["cloudstack-qcow2"])
    assert shop.call("info")["stemcell_formats"] == ["cloudstack-qcow2"]


def test_info_of_a_yaml_configuration(shop: Shop) -> None:
    shop.config.write_text(f"driver: sandbox\nstate: {shop.folder}/sandbox.db\nstemcell_formats: [raw]\n")
    assert shop.call("info")["stemcell_formats"] == ["raw"]


def test_a_machine_through_the_real_program(new_shop: Shop) -> None:
    shop, stemcell = new_shop, new_shop.stemcell()
    made = one_object(shop.run(shop.vm_request("agent-1", stemcell)))
    cid = made["result"][0]  # type: ignore[index] # the test fails if it is no list
    assert one_object(shop.run(shop.request("has_vm", cid)))["result"] is True
    assert one_object(shop.run(shop.request("delete_vm", cid)))["result"] is None
    assert one_object(shop.run(shop.request("has_vm", cid)))["result"] is False


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_version_gets_the_answers_that_it_knows(shop: Shop, version: int) -> None:
    more = [{"tags": {"team": "a"}}] if version == 3 else []
    stemcell = shop.call("create_stemcell", str(shop.image), {}, *more, version=version)
    made = shop.call("create_vm", *shop.vm_arguments("agent-1", stemcell), version=version)
    cid = made if version == 1 else made[0]
    assert shop.inventory()["vm"] == [cid]
    disk = shop.call("create_disk", 1024, {"zone": "z1"}, cid, version=version)
    hint = shop.call("attach_disk", cid, disk, version=version)
    assert (hint is None) is (version == 1)
    assert shop.call("info", version=version)["api_version"] == 3


def test_arguments_that_a_version_does_not_have_are_refused(shop: Shop) -> None:
    with pytest.raises(AssertionError, match="`arguments` of create_stemcell must be 2"):
        shop.call("create_stemcell", str(shop.image), {}, {"tags": {}}, version=2)
    assert shop.inventory() == {}


def test_context_properties_override_the_file(shop: Shop) -> None:
    stemcell = shop.stemcell()
    elsewhere = shop.call("create_stemcell", str(shop.image), {}, account="other")
    assert shop.inventory() == {"image": [stemcell]}
    assert elsewhere != stemcell
    with pytest.raises(AssertionError, match=r"properties\.colour is not known"):
        shop.call("has_vm", "i-1", colour="red")


def test_secrets_of_the_configuration_stay_out_of_answers(shop: Shop) -> None:
    shop.configure(properties={"state": "/dev/null/no", "account": "lab", "quotas": {"api_key": "very-secret-key"}})
    raw = shop.run(shop.request("has_vm", "i-1")).stdout
    assert b"very-secret-key" not in raw
    assert json.loads(raw)["error"]["type"].startswith("Bosh::Clouds::")


def test_a_ledger_without_its_folder_names_the_setting_and_touches_no_cloud(shop: Shop) -> None:
    shop.configure(ledger=str(shop.folder / "not-mounted" / "coterie_cpi" / "ledger.db"))
    with pytest.raises(AssertionError, match="set `ledger:` in the configuration"):
        shop.call("create_stemcell", str(shop.image), {})
    assert shop.inventory() == {}


def test_the_default_ledger_is_named_when_the_store_is_absent(shop: Shop) -> None:
    document = json.loads(shop.config.read_text())
    del document["ledger"]
    shop.config.write_text(json.dumps(document))
    envelope = one_object(shop.run(shop.request("create_disk", 1024, {"zone": "z1"}, None, version=1)))
    assert "/var/vcap/store/coterie_cpi/ledger.db" in envelope["error"]["message"]  # type: ignore[index] # as above


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("driver: [sandbox\n", "line 2"),
        ("- a\n", "must be a mapping"),
        ("{}", "driver in the configuration"),
        ('{"driver": "nimbus"}', "no cloud driver is named 'nimbus'"),
        ('{"driver": "sandbox", "groups": {"polisy": 1}}', "groups.polisy in the configuration"),
        ('{"driver": "sandbox", "groups": {"policy": "far"}}', "policy must be one of"),
        ('{"driver": "sandbox", "registry": {"listen": "127.0.0.1:0"}}', "registry.endpoint in the configuration"),
        ('{"driver": "sandbox", "lease_s": "x"}', "lease_s in the configuration"),
        ('{"driver": "sandbox", "state": {"from_file": "/nonexistent"}}', "names the file '/nonexistent'"),
        ('{"driver": "sandbox", "state": {"from_env": "NO_SUCH"}}', "names the variable 'NO_SUCH'"),
    ],
)
def test_a_mistake_in_the_configuration_is_named(shop: Shop, text: str, words: str) -> None:
    shop.config.write_text(text)
    with pytest.raises(AssertionError, match=words.replace("[", r"\[")):
        shop.call("has_vm", "i-1")


def test_a_missing_configuration_is_named(shop: Shop) -> None:
    shop.config.unlink()
    with pytest.raises(AssertionError, match=r"cpi\.json cannot be read"):
        shop.call("has_vm", "i-1")


def test_a_secret_from_a_file(shop: Shop) -> None:
    (shop.folder / "name").write_text("lab\n")
    shop.configure(
        properties={"state": str(shop.folder / "sandbox.db"), "account": {"from_file": str(shop.folder / "name")}}
    )
    stemcell = shop.stemcell()
    assert shop.inventory() == {"image": [stemcell]}


def test_a_secret_from_the_environment(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_TEST_ACCOUNT", "lab")
    place = {"state": str(shop.folder / "sandbox.db"), "account": {"from_env": "COTERIE_TEST_ACCOUNT"}}
    shop.configure(properties=place)
    stemcell = shop.stemcell()
    assert shop.inventory() == {"image": [stemcell]}


def test_our_own_director_keeps_its_own_ledger(new_shop: Shop) -> None:
    shop = new_shop
    mark = {"director": DIRECTOR, "intent": "0123456789abcdefghjkmnpqrs"}
    cid = shop.call("create_disk", 1024, {"zone": "z1"}, None, coterie={"mark": mark}, version=3)
    assert shop.call("find", "disk", mark)["cid"] == cid
    assert not shop.ledger_file.exists()
