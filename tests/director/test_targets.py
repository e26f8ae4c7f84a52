"""Service discovery for Prometheus: the form that it reads, one entry for each node with an address."""

from __future__ import annotations

from tests.cli.conftest import Machine, machine

__all__ = ["machine"]


def test_targets_are_the_addresses_of_nodes(machine: Machine) -> None:
    machine.furnish()
    assert machine.run("deploy", "-y", "web.yml").code == 0
    found = read(machine, "/v1/targets?port=9187&deployment=web")
    nodes = machine.run("nodes", "-o", "json").json["items"]
    assert sorted(one["targets"][0] for one in found) == sorted(f"{n['addresses']['default']}:9187" for n in nodes)
    assert found[0]["labels"]["__meta_coterie_deployment"] == "web"
    assert all(isinstance(value, str) for one in found for value in one["labels"].values())
    assert read(machine, "/v1/targets?deployment=other") == []
    assert read(machine, "/v1/targets?network=other") == []


def read(machine: Machine, path: str) -> list[dict[str, object]]:
    import json

    from coterie.client.routes import connect_unix

    connection = connect_unix(machine.state_folder.socket, 30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == 200 and response.getheader("content-type") == "application/json"
        found: list[dict[str, object]] = json.loads(response.read())
    finally:
        connection.close()
    return found
