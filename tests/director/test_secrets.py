"""No secret leaves through the API: not in clouds, documents, nodes, events, problems or settings."""

from __future__ import annotations

import pytest

from coterie.director.context import AppContext
from coterie.errors import InvalidDocument
from coterie.redact import hide, hide_yaml, looks_secret, refuse_redacted
from tests.director.asgi import Client
from tests.ledger.views import rows

SECRET = "hunter2-the-secret"
CONFIG = f"""\
# our clouds
clouds:
- name: lab
  driver: exec
  properties:
    path: /bin/cpi
    properties:
      api_key: {SECRET}  # keep out
      nested: {{password: "{SECRET}", user: me}}
      private_key: |
        -----BEGIN-----
        {SECRET}
        -----END-----
      endpoint: https://me:{SECRET}@cloud.example/api
azs:
- name: z1
  cloud: lab
"""


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db_password",
        "api_key",
        "apiKey",
        "secretAccessKey",
        "auth_token",
        "clientSecret",
        "passwd",
        "user_data",
    ],
)
def test_keys_that_look_secret(key: str) -> None:
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key", ["name", "public_key", "token_path", "secret_name", "passengers", "author", "id", "user_data_path"]
)
def test_keys_that_do_not_look_secret(key: str) -> None:
    assert not looks_secret(key)


def test_redact_hides_values_and_keeps_the_rest() -> None:
    value = {"a": [{"password": "x", "user": "me"}], "token": None, "secret": True, "credentials": {"a": "x"}}
    assert hide(value) == {
        "a": [{"password": "<redacted>", "user": "me"}],
        "token": None,
        "secret": True,
        "credentials": {"a": "<redacted>"},
    }


def test_a_shown_document_keeps_everything_but_the_secrets() -> None:
    shown = hide_yaml(CONFIG.replace(f"me:{SECRET}@", ""))
    assert SECRET not in shown
    assert "# our clouds" in shown and "# keep out" in shown and "user: me" in shown
    assert "      endpoint: https://cloud.example/api\nazs:\n- name: z1\n" in shown
    assert shown.count('"<redacted>"') == 3


def test_secrets_behind_aliases_and_in_unreadable_texts_are_hidden_too() -> None:
    assert "x1" not in hide_yaml("a: &it {password: x1}\nb: *it\n")
    assert "x1" not in hide_yaml("password: x1\n\tbroken: [")
    assert "x1" not in hide_yaml("password: [x1, x1]\n")


def test_a_redacted_document_is_refused() -> None:
    with pytest.raises(InvalidDocument) as caught:
        refuse_redacted(hide_yaml("a: 1\npassword: x\n"), "my.yml")
    assert caught.value.details["mistakes"][0]["line"] == 2


def test_no_route_reveals_a_secret(client: Client, context: AppContext) -> None:
    stored = client.send("PUT", "/v1/cloud-config", {"text": CONFIG})
    assert stored.status == 200, stored.text
    rows.deployment(
        context.ledger, "kafka", manifest=f"name: kafka\nenv: {{password: {SECRET}}}\nuser_data: |\n  {SECRET}\n"
    )
    rows.node(context.ledger, "broker", 0, spec={"env": {"bosh": {"password": SECRET}}, "user_data": SECRET})
    rows.cloud_object(context.ledger, "i1", properties={"token": SECRET})
    rows.task(context.ledger, 1, plan={"details": {"secret": SECRET}}, state="done")
    rows.event(context.ledger, 1, 1, data={"password": SECRET}, body=f"called https://me:{SECRET}@cloud/")
    with client.stream("/v1/tasks/1/events") as blocks:
        streamed = "".join(blocks)
    answers = [
        stored.text,
        streamed,
        *[
            client.get(path).text
            for path in (
                "/v1/cloud-config",
                "/v1/clouds",
                "/v1/clouds/lab",
                "/v1/deployments/kafka/manifest",
                "/v1/nodes/kafka/broker/0",
                "/v1/objects",
                "/v1/tasks/1",
                "/v1/tasks/1/events",
                "/v1/events",
            )
        ],
    ]
    assert [text for text in answers if SECRET in text] == []
    assert all("redacted" in text or "coterie-sealed-1:" in text for text in answers)
    assert "hunter2" not in client.get("/v1/config").text


def test_a_problem_hides_secrets_in_its_details(client: Client) -> None:
    reply = client.send("PUT", "/v1/cloud-config", {"text": f"clouds:\n- {{name: lab, password: {SECRET}}}\n"})
    assert reply.status == 422
    assert SECRET not in reply.text
