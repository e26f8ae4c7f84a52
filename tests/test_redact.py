"""What is secret, and what a text looks like without it."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from coterie.errors import CoterieError
from coterie.redact import KNOWN, REDACTED, KnownSecrets, Redactor, hide, hide_in_error, hide_yaml

SECRET = "Zq9/kä&\"'-x7 !p"
ENV = {"a": {"b": [{"any name": SECRET}]}}
FORMS = {
    "plain": SECRET,
    "json": json.dumps(SECRET),
    "json, characters kept": json.dumps(SECRET, ensure_ascii=False),
    "json in json": json.dumps(json.dumps({"x": SECRET})),
    "repr": repr(SECRET),
    "url": quote(SECRET, safe=""),
    "xml": SECRET.replace("&", "&amp;").replace('"', "&quot;"),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    **{
        f"base64, {before} before": base64.b64encode(b"u" * before + SECRET.encode() + b":tail").decode()
        for before in range(5)
    },
    "base64 for URLs": base64.urlsafe_b64encode(b"user:" + SECRET.encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_replaced_in_every_form(form: str) -> None:
    hidden = Redactor({"env": ENV}).hide(f"refused: {FORMS[form]} is wrong")
    assert REDACTED in hidden
    assert hidden.startswith("refused: ") and hidden.endswith(" is wrong")
    assert SECRET not in hidden and FORMS[form] not in hidden


@pytest.mark.parametrize(
    ("value", "repeated"),
    [
        ("nats://u:S3cretWord@10.0.0.1:4222", "login with S3cretWord"),
        ("host=db user=u password=S3cretWord dbname=x", "login with S3cretWord"),
        ("Server=db;Pwd=S3cretWord;", "login with S3cretWord"),
        ('{"deep": {"x": "S3cretWord"}}', "login with S3cretWord"),
        ("#cloud-config\nchpasswd:\n  list: S3cretWord\n", "line `list: S3cretWord`"),
        ("#!/bin/sh\nexport TOKEN=S3cretWord\n", "env TOKEN is S3cretWord"),
        (base64.b64encode(b"user:S3cretWord").decode(), "user:S3cretWord"),
        ("Basic " + base64.b64encode(b"user:S3cretWord").decode(), "user:S3cretWord"),
        ("Bearer S3cretWord", "S3cretWord"),
        ("-----BEGIN KEY-----\nS3cretWord\n-----END KEY-----\n", "bad line S3cretWord"),
    ],
)
def test_what_is_inside_a_value_is_secret_too(value: str, repeated: str) -> None:
    assert "S3cretWord" not in Redactor(secret=[value]).hide(repeated)


@pytest.mark.parametrize("value", ["true", True, 1, 8443, "8443", "default", "admin", "abc", "", None, "---", "****"])
def test_short_and_common_values_leave_a_text_as_it_is(value: object) -> None:
    text = "true: the default admin abc of port 8443 --- **** cannot do 1 thing"
    assert Redactor(secret=[{"x": value}]).hide(text) == text


def test_a_value_of_a_few_characters_is_replaced_where_it_is_a_word() -> None:
    assert Redactor(secret=["blue"]).hide("bluebird blue-eyed blue") == f"bluebird {REDACTED}-eyed {REDACTED}"


def test_names_that_are_shown_anyway_are_not_replaced() -> None:
    env = {"bosh": {"group": "dc-kafka", "server_group_cid": "sg-123456", "tag": "kafka"}, "x": "kafka-secret"}
    text = "kafka: sg-123456 of dc-kafka is gone, kafka-secret"
    assert Redactor(secret=[env], public=["kafka"]).hide(text) == f"kafka: sg-123456 of dc-kafka is gone, {REDACTED}"


def test_an_error_is_redacted_as_a_whole() -> None:
    error = CoterieError(SECRET, why=SECRET, remedy=SECRET, details={"a": [SECRET], "retry_after": 3})
    hide_in_error(error, Redactor(secret=[SECRET]))
    assert SECRET not in json.dumps(error.facts(), ensure_ascii=False) + str(error) + repr(error)
    assert error.details["retry_after"] == 3


def test_an_answer_hides_everything_below_env_and_the_same_values_elsewhere() -> None:
    shown = hide({"spec": {"env": {"psk": "S3cretWord", "on": True, "n": 7}}, "problem": "cloud said S3cretWord"})
    assert shown == {
        "spec": {"env": {"psk": REDACTED, "on": True, "n": REDACTED}},
        "problem": f"cloud said {REDACTED}",
    }


def test_a_yaml_text_hides_env_by_value_also_through_anchors_and_in_comments() -> None:
    text = """\
tags: &shared {note: S3cretWord}  # S3cretWord
instance_groups:
- name: web
  env:
    <<: *shared
    list: [nats://u:0therWord@h, plain]
    pem: |
      -----BEGIN-----
      L1neOfPem
  user_data: "Us3rData"
"""
    shown = hide_yaml(text)
    for value in ("S3cretWord", "0therWord", "L1neOfPem", "Us3rData", "plain"):
        assert value not in shown
    assert "name: web" in shown


def test_a_log_hides_what_the_process_knows() -> None:
    known = KnownSecrets()
    known.learn({"user": "S3cretWord"})
    with known.hold("step", {"wish": {"env": {"x": "0therWord"}}}):
        assert known.hide("S3cretWord 0therWord") == f"{REDACTED} {REDACTED}"
    assert known.hide("S3cretWord 0therWord") == f"{REDACTED} 0therWord"
    assert KNOWN.hide("postgresql://u:pw@db/x") == f"postgresql://{REDACTED}@db/x"
