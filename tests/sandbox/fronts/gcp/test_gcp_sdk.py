"""The front judged by clients of others: Google's two libraries live a life of everything against it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from peers.gcp_bed import PROJECT, PUBLIC_IMAGE, Peer

import requests
from coterie.sandbox.fronts.gcp.call import REGION, Trick

ZONE = f"projects/{PROJECT}/zones/z1"
SUBNET = f"projects/{PROJECT}/regions/{REGION}/subnetworks/default"


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    made = Peer(tmp_path)
    yield made
    made.close()


class Token(AnonymousCredentials):
    """A bearer of the front's, without a token endpoint."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self._bearer = peer.identity.issue()["access_token"]

    def before_request(self, request: Any, method: str, url: str, headers: dict[str, str]) -> None:
        headers["authorization"] = f"Bearer {self._bearer}"

    def apply(self, headers: dict[str, str], token: str | None = None) -> None:
        headers["authorization"] = f"Bearer {self._bearer}"


class Clients:
    """Of google-cloud-compute, over plain HTTP."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._credentials = Token(peer)

    def of(self, kind: str) -> Any:
        """The library asks Google itself about operations, unless it is handed the clients for that."""
        service = getattr(compute_v1, f"{kind}Client")
        transport = service.get_transport_class("rest")(
            host=self._peer.server.origin.removeprefix("http://"),
            url_scheme="http",
            credentials=self._credentials,
        )
        if "Operations" not in kind:
            for scope in ("Zone", "Region", "Global"):
                operations = self.of(f"{scope}Operations")
                transport._extended_operations_services[f"{scope.lower()}_operations"] = operations
        return service(transport=transport)


@pytest.fixture
def clients(peer: Peer) -> Clients:
    return Clients(peer)


def instance(name: str, **more: Any) -> dict[str, Any]:
    disk = {"boot": True, "auto_delete": True, "initialize_params": {"source_image": PUBLIC_IMAGE}}
    return {
        "name": name,
        "machine_type": f"{ZONE}/machineTypes/f1-micro",
        "disks": [disk],
        "network_interfaces": [{"subnetwork": SUBNET}],
        **more,
    }


def test_an_instance_lives_with_its_policy_and_disk(clients: Clients) -> None:
    policies, instances, disks = clients.of("ResourcePolicies"), clients.of("Instances"), clients.of("Disks")
    spread = {"name": "apart", "group_placement_policy": {"availability_domain_count": 4}}
    policies.insert(project=PROJECT, region=REGION, resource_policy_resource=spread).result(timeout=10)
    wanted = instance(
        "a",
        labels={"team": "one"},
        resource_policies=[f"projects/{PROJECT}/regions/{REGION}/resourcePolicies/apart"],
        scheduling={"availability_domain": 3},
    )
    instances.insert(project=PROJECT, zone="z1", instance_resource=wanted).result(timeout=10)
    row = instances.get(project=PROJECT, zone="z1", instance="a")
    assert row.status == "RUNNING" and row.labels["team"] == "one"
    assert row.resource_status.scheduling.availability_domain == 3
    with pytest.raises(exceptions.Conflict):
        instances.insert(project=PROJECT, zone="z1", instance_resource=wanted)
    with pytest.raises(exceptions.BadRequest, match="already being used"):
        policies.delete(project=PROJECT, region=REGION, resource_policy="apart").result(timeout=10)
    disks.insert(project=PROJECT, zone="z1", disk_resource={"name": "d", "size_gb": 1}).result(timeout=10)
    attached = {"source": f"{ZONE}/disks/d", "device_name": "d"}
    instances.attach_disk(project=PROJECT, zone="z1", instance="a", attached_disk_resource=attached).result(timeout=10)
    assert [one.rsplit("/", 1)[-1] for one in disks.get(project=PROJECT, zone="z1", disk="d").users] == ["a"]
    with pytest.raises(exceptions.BadRequest, match="already being used"):
        disks.delete(project=PROJECT, zone="z1", disk="d").result(timeout=10)
    instances.detach_disk(project=PROJECT, zone="z1", instance="a", device_name="d").result(timeout=10)
    disks.resize(project=PROJECT, zone="z1", disk="d", disks_resize_request_resource={"size_gb": 2}).result(timeout=10)
    snapshot = {"name": "s", "source_disk": f"{ZONE}/disks/d"}
    clients.of("Snapshots").insert(project=PROJECT, snapshot_resource=snapshot).result(timeout=10)
    assert clients.of("Snapshots").get(project=PROJECT, snapshot="s").disk_size_gb == 2
    instances.delete(project=PROJECT, zone="z1", instance="a").result(timeout=10)
    with pytest.raises(exceptions.NotFound):
        instances.get(project=PROJECT, zone="z1", instance="a")
    assert [one.name for one in disks.list(project=PROJECT, zone="z1")] == ["d"]
    policies.delete(project=PROJECT, region=REGION, resource_policy="apart").result(timeout=10)


def test_labels_and_tags_need_their_fingerprints(clients: Clients) -> None:
    instances = clients.of("Instances")
    instances.insert(project=PROJECT, zone="z1", instance_resource=instance("a")).result(timeout=10)
    row = instances.get(project=PROJECT, zone="z1", instance="a")
    body = {"labels": {"a": "b"}, "label_fingerprint": row.label_fingerprint}
    request = {"project": PROJECT, "zone": "z1", "instance": "a"}
    instances.set_labels(**request, instances_set_labels_request_resource=body).result(timeout=10)
    with pytest.raises(exceptions.PreconditionFailed):
        instances.set_labels(**request, instances_set_labels_request_resource=body)
    tags = {"items": ["web"], "fingerprint": row.tags.fingerprint}
    instances.set_tags(**request, tags_resource=tags).result(timeout=10)
    with pytest.raises(exceptions.PreconditionFailed):
        instances.set_tags(**request, tags_resource=tags)
    assert instances.get(**request).tags.items == ["web"]


def test_lists_over_zones_have_pages_filters_and_silent_zones(peer: Peer, clients: Clients) -> None:
    disks = clients.of("Disks")
    for zone in ("z1", "z2"):
        for number in range(3):
            body = {"name": f"d{number}", "size_gb": 1, "labels": {"n": str(number)}}
            disks.insert(project=PROJECT, zone=zone, disk_resource=body).result(timeout=10)
    listed = dict(disks.aggregated_list(request={"project": PROJECT, "max_results": 2}))
    assert {scope for scope, part in listed.items() if part.disks} <= {"zones/z1", "zones/z2"}
    only = disks.aggregated_list(request={"project": PROJECT, "filter": 'labels.n="1"'})
    assert sorted(one.zone.rsplit("/", 1)[-1] for _, part in only for one in part.disks) == ["z1", "z2"]
    peer.front.unreachable = {"z2"}
    with pytest.raises(exceptions.ServiceUnavailable):
        list(disks.aggregated_list(request={"project": PROJECT}, retry=None))
    with pytest.raises(exceptions.BadRequest, match="cannot be mixed"):
        list(disks.list(request={"project": PROJECT, "zone": "z1", "filter": 'name="d1" AND name eq d.*'}))
    with pytest.raises(exceptions.BadRequest, match="Unknown field"):
        list(disks.list(request={"project": PROJECT, "zone": "z1", "filter": 'nonesuch="d1"'}))


def test_a_request_id_is_remembered_also_when_the_name_is_free_again(clients: Clients) -> None:
    disks, ident = clients.of("Disks"), "6f1c1d2e-0000-4000-8000-00000000c0de"
    request = {"project": PROJECT, "zone": "z1", "request_id": ident, "disk_resource": {"name": "d", "size_gb": 1}}
    first = disks.insert(request=request)
    first.result(timeout=10)
    assert disks.insert(request=request).name == first.name
    disks.delete(project=PROJECT, zone="z1", disk="d").result(timeout=10)
    again = disks.insert(request=request)
    again.result(timeout=10)
    with pytest.raises(exceptions.NotFound):
        disks.get(project=PROJECT, zone="z1", disk="d")


def test_a_taken_change_may_fail_in_its_operation(peer: Peer, clients: Clients) -> None:
    instances = clients.of("Instances")
    peer.front.tricks.append(Trick("fail", "instances.insert"))
    operation = instances.insert(project=PROJECT, zone="z1", instance_resource=instance("a"))
    with pytest.raises(exceptions.GoogleAPICallError, match="Internal error"):
        operation.result(timeout=10)
    large = instance("b", machine_type=f"{ZONE}/machineTypes/m2-ultramem-416")
    operation = instances.insert(project=PROJECT, zone="z1", instance_resource=large)
    with pytest.raises(exceptions.GoogleAPICallError, match="does not have enough resources"):
        operation.result(timeout=10)


def test_sole_tenant_nodes_take_only_what_names_them(clients: Clients) -> None:
    nodes, instances = clients.of("NodeGroups"), clients.of("Instances")
    template = f"projects/{PROJECT}/regions/{REGION}/nodeTemplates/t"
    clients.of("NodeTemplates").insert(project=PROJECT, region=REGION, node_template_resource={"name": "t"}).result(
        timeout=10
    )
    body = {"name": "licensed", "node_template": template}
    nodes.insert(project=PROJECT, zone="z1", initial_node_count=1, node_group_resource=body).result(timeout=10)
    affinity = {"key": "compute.googleapis.com/node-group-name", "operator": "IN", "values": ["licensed"]}
    wanted = instance("a", scheduling={"node_affinities": [affinity]})
    instances.insert(project=PROJECT, zone="z1", instance_resource=wanted).result(timeout=10)
    (node,) = nodes.list_nodes(project=PROJECT, zone="z1", node_group="licensed")
    assert [one.rsplit("/", 1)[-1] for one in node.instances] == ["a"]


# -- the discovery client --


@pytest.fixture
def discovered(peer: Peer) -> Any:
    token = Token(peer)

    class Http:
        """The transport of the discovery client, without httplib2's credentials."""

        def request(self, uri: str, method: str = "GET", body: Any = None, headers: Any = None, **_: Any) -> Any:
            sent = dict(headers or {})
            token.apply(sent)
            answer = requests.request(method, uri, data=body, headers=sent, timeout=10)
            shown = {"status": str(answer.status_code), **{k.lower(): v for k, v in answer.headers.items()}}
            import httplib2

            return httplib2.Response(shown), answer.content

    options = {"api_endpoint": f"{peer.server.origin}/compute/v1/"}
    return build("compute", "v1", http=Http(), client_options=options, static_discovery=True)


def test_firewalls_by_the_discovery_client(discovered: Any) -> None:
    rule = {"name": "web", "allowed": [{"IPProtocol": "tcp", "ports": ["80"]}], "sourceRanges": ["10.0.0.0/8"]}
    discovered.firewalls().insert(project=PROJECT, body=rule).execute()
    row = discovered.firewalls().get(project=PROJECT, firewall="web").execute()
    assert (row["direction"], row["priority"]) == ("INGRESS", 1000)
    changed = {"name": "web", "description": "changed"}
    discovered.firewalls().patch(project=PROJECT, firewall="web", body=changed).execute()
    found = discovered.firewalls().list(project=PROJECT, filter="name eq we.*").execute()["items"]
    assert [one["description"] for one in found] == ["changed"]
    for wrong in (
        {"name": "x", "allowed": [], "sourceRanges": ["10.0.0.0/8"]},
        {"name": "x", "allowed": [{"IPProtocol": "icmp", "ports": ["8"]}]},
        {"name": "x", "allowed": [{"IPProtocol": "all"}], "direction": "EGRESS", "sourceTags": ["web"]},
        {"name": "x", "allowed": [{"IPProtocol": "all"}], "sourceRanges": ["10.0.0.0/8", "::/0"]},
        {"name": "X!", "allowed": [{"IPProtocol": "all"}]},
    ):
        with pytest.raises(HttpError):
            discovered.firewalls().insert(project=PROJECT, body=wrong).execute()


def test_unknown_and_output_only_fields_are_refused(discovered: Any) -> None:
    for body, words in (
        ({"name": "d", "sizeGB": "1"}, "Unknown name"),
        ({"name": "d", "status": "READY"}, "output only"),
        ({"name": "d", "sizeGb": "one"}, "Invalid value"),
        ({"name": "d", "architecture": "PDP11"}, "Invalid value"),
        ({"sizeGb": "1"}, "Required field"),
        ({"name": "D_"}, "Invalid value"),
    ):
        with pytest.raises(HttpError, match=words):
            discovered.disks().insert(project=PROJECT, zone="z1", body=body).execute()


def test_an_image_comes_out_of_the_bucket(peer: Peer, discovered: Any) -> None:
    def archive(name: str, size: int) -> bytes:
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1, format=tarfile.GNU_FORMAT) as made:
            info = tarfile.TarInfo(name)
            info.size = size
            made.addfile(info, io.BytesIO(bytes(size)))
        return raw.getvalue()

    bucket = peer.front.settings.bucket
    source = f"https://storage.googleapis.com/{bucket}/a.tar.gz"
    body = {"name": "a", "rawDisk": {"source": source}}
    for data in (None, b"no archive", archive("root.img", 1024), archive("disk.raw", 1024)):
        if data is not None:
            peer.front.compute.objects[bucket, "a.tar.gz"] = data, {}
        with pytest.raises(HttpError):
            discovered.images().insert(project=PROJECT, body=body).execute()
    peer.front.compute.objects[bucket, "a.tar.gz"] = archive("disk.raw", 2**30), {}
    discovered.images().insert(project=PROJECT, body=body).execute()
    assert discovered.images().get(project=PROJECT, image="a").execute()["diskSizeGb"] == "1"


def test_a_role_on_an_image_is_given_read_and_taken_back(clients: Clients) -> None:
    images = clients.of("Images")
    image = compute_v1.Image(name="a", source_image=PUBLIC_IMAGE)
    images.insert(project=PROJECT, image_resource=image).result()
    empty = images.get_iam_policy(project=PROJECT, resource="a")
    assert (list(empty.bindings), bool(empty.etag)) == ([], True)
    binding = compute_v1.Binding(role="roles/compute.imageUser", members=["allAuthenticatedUsers"])
    given = compute_v1.GlobalSetPolicyRequest(policy=compute_v1.Policy(bindings=[binding], etag=empty.etag))
    words = {"project": PROJECT, "resource": "a", "global_set_policy_request_resource": given}
    images.set_iam_policy(**words)
    assert list(images.get_iam_policy(project=PROJECT, resource="a").bindings) == [binding]
    with pytest.raises(exceptions.PreconditionFailed):
        images.set_iam_policy(**words)
    with pytest.raises(exceptions.NotFound):
        images.get_iam_policy(project=PROJECT, resource="b")
