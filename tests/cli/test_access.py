"""A Director on TCP with TLS, used by people with tokens: what they find, what they are refused, and how it ends."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import CLOUD, Machine
from tests.cli.test_director_verb import serving
from tests.peers.certificates import Authority

SECRET = "hunter2-the-secret"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The Director's machine."""
    machine = Machine(tmp_path_factory.mktemp("director"))
    authority = Authority(machine.folder)
    certificate, key = authority.issue("director")
    machine.env |= {"COTERIE_TLS_CERTIFICATE": str(certificate), "COTERIE_TLS_KEY": str(key)}
    with serving(machine, "--listen", "127.0.0.1:0") as where:
        machine.env |= {"COTERIE_DIRECTOR": f"https://{where}", "COTERIE_CA": str(authority.ca)}
        yield machine
    machine.close()


@pytest.fixture
def laptop(site: Machine, tmp_path: Path) -> Machine:
    """Another machine, configured with the Director's address."""
    told = {name: site.env[name] for name in ("COTERIE_DIRECTOR", "COTERIE_CA")}
    return Machine(tmp_path, told)


def token(site: Machine, *words: str) -> str:
    made = site.run("tokens", "create", *words)
    assert made.code == 0, made.err
    return made.out.strip()


def test_the_first_admin_finds_its_token_and_makes_others(site: Machine, laptop: Machine) -> None:
    first = site.state_folder.token
    assert first.stat().st_mode & 0o777 == 0o600
    me = site.run("tokens", "whoami", "-o", "json").json
    assert (me["name"], me["role"]) == ("bootstrap", "admin")
    laptop.env["COTERIE_TOKEN"] = token(site, "ci", "--role", "operator", "--team", "red", "--days", "3")
    assert laptop.run("tokens", "whoami", "-o", "json").json["teams"] == ["red"]
    listed = site.run("tokens")
    assert "ci" in listed.out and laptop.env["COTERIE_TOKEN"] not in listed.out
    number = next(one["id"] for one in site.run("tokens", "-o", "json").json["items"] if one["name"] == "ci")
    assert site.run("tokens", "revoke", number).code == 0
    refused = laptop.run("nodes")
    assert (refused.code, "unauthenticated" in refused.err) == (8, True)


def test_without_or_with_too_weak_a_token_one_is_told(site: Machine, laptop: Machine) -> None:
    refused = laptop.run("nodes")
    assert refused.code == 8 and "COTERIE_TOKEN" in refused.err
    laptop.env["COTERIE_TOKEN"] = token(site, "vic")
    assert laptop.run("nodes").code == 0
    forbidden = laptop.run("delete", "web", "--yes")
    assert forbidden.code == 4 and "operator" in forbidden.err and "remedy" in forbidden.err
    assert laptop.run("tokens").code == 4


def test_a_token_file_is_used_only_if_no_other_user_can_read_it(site: Machine, laptop: Machine) -> None:
    saved = laptop.folder / "my-token"
    made = site.run("tokens", "create", "ann", "--save", str(saved))
    assert made.code == 0 and made.out == "" and "cot_" not in made.err
    laptop.env["COTERIE_TOKEN_FILE"] = str(saved)
    assert laptop.run("nodes").code == 0
    saved.chmod(0o644)
    refused = laptop.run("nodes")
    assert refused.code == 4 and "chmod 600" in refused.err
    config = laptop.folder / ".config" / "coterie" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'token = "{saved.read_text().strip()}"\n')
    config.chmod(0o640)
    del laptop.env["COTERIE_TOKEN_FILE"]
    refused = laptop.run("nodes")
    assert refused.code == 4 and saved.read_text().strip() not in refused.err
    config.chmod(0o600)
    assert laptop.run("nodes").code == 0
    assert laptop.run("nodes", "--token", "x").code == 2, "never on the command line"


def test_a_director_that_cannot_be_trusted_gets_no_token(site: Machine, laptop: Machine) -> None:
    del laptop.env["COTERIE_CA"]
    laptop.env["COTERIE_TOKEN"] = "cot_a_b"
    refused = laptop.run("nodes")
    assert refused.code == 7 and "--ca" in refused.err
    assert laptop.run("nodes", "--ca", site.env["COTERIE_CA"]).code == 8
    laptop.write("empty.pem", "")
    assert laptop.run("nodes", "--ca", "empty.pem").code == 2


def test_old_tls_and_plain_http_get_nothing(site: Machine) -> None:
    where = site.env["COTERIE_DIRECTOR"]
    with pytest.raises(OSError):
        urllib.request.urlopen(where.replace("https", "http") + "/livez", timeout=60)
    old = ssl.create_default_context(cafile=site.env["COTERIE_CA"])
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{where}/livez", timeout=60, context=old)
    new = ssl.create_default_context(cafile=site.env["COTERIE_CA"])
    assert urllib.request.urlopen(f"{where}/livez", timeout=60, context=new).read() == b"ok\n"


def test_credentials_leave_the_laptop_sealed(site: Machine, laptop: Machine) -> None:
    laptop.env["COTERIE_TOKEN"] = token(site, "ann", "--role", "admin")
    text = CLOUD.replace("driver: sandbox", f"driver: sandbox\n  properties: {{state: {laptop.folder}/{SECRET}.db}}")
    laptop.write("cloud.yml", text)
    sealed = laptop.run("clouds", "seal", "cloud.yml")
    assert sealed.code == 0 and SECRET not in sealed.out and "coterie-sealed-1::" in sealed.out
    assert laptop.run("clouds", "set", laptop.write("sealed.yml", sealed.out)).code == 0
    assert "sealed to key" in laptop.run("clouds", "show", "lab").out
    checked = laptop.run("clouds", "check")
    assert checked.code == 0, checked.err
    kept = b"".join(one.read_bytes() for one in site.state_folder.path.iterdir() if one.is_file())
    assert SECRET.encode() not in kept
    assert b"coterie-sealed-1:" in kept
    rotated = site.run("conductors", "keys", "make")
    assert rotated.code == 0
    assert site.run("conductors", "keys", "publish", "--group", "*").code == 0
    again = laptop.run("clouds", "reseal", "-o", "json")
    assert again.code == 0, again.err
    keys = site.run("conductors", "keys", "-o", "json").json["items"]
    assert [one["conductor_group"] for one in keys] == ["*", "*"]
    assert again.json["items"] == [
        {"name": "lab", "key": keys[0]["id"], "sealed_to": {"": keys[0]["id"]}, "sealed_again": 0}
    ]
    assert site.run("conductors", "keys", "retire", keys[1]["id"], "--group", "*").code == 0
    assert laptop.run("clouds", "check").code == 0


def test_who_did_what_is_shown(site: Machine, laptop: Machine) -> None:
    laptop.env["COTERIE_TOKEN"] = token(site, "otto", "--role", "operator")
    assert laptop.run("stemcells", "add", "os", "1", "--property", "image=x").code == 0
    shown = laptop.run("events", "--kind", "audit")
    assert shown.code == 0
    assert "otto: POST done (201)" in shown.out and "/v1/stemcells" in shown.out


def test_when_all_tokens_are_lost_the_machine_s_owner_makes_one(site: Machine, laptop: Machine) -> None:
    made = site.run("tokens", "bootstrap", "--save", "new-token")
    assert made.code == 0 and made.out == "" and "cot_" not in made.err
    saved = site.folder / "new-token"
    assert saved.stat().st_mode & 0o777 == 0o600
    laptop.env["COTERIE_TOKEN"] = saved.read_text().strip()
    assert laptop.run("tokens", "whoami", "-o", "json").json["role"] == "admin"
    again = site.run("tokens", "bootstrap", "--save", "new-token")
    assert again.code == 2 and "another file" in again.err


def test_the_sql_of_a_role_is_printed(machine: Machine) -> None:
    done = machine.run("conductors", "role", "role-a", "--group", "site-a")
    assert done.code == 0 and 'GRANT SELECT ON clouds TO "role-a";' in done.out
    assert "'site-a'" in done.out
