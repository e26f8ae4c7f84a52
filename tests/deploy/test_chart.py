"""The Helm chart, rendered by the real helm and read by Kubernetes' own types: `make test-packages`. What it starts and
sets is held to the real command line and settings. Nothing runs in a Kubernetes here."""

from __future__ import annotations

import copy
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from coterie import __version__
from coterie.settings import all_settings
from tests.deploy.words import accept

HELM = os.environ.get("COTERIE_HELM", "")
CHART = Path(__file__).parents[2] / "deploy" / "helm"
TEMPLATE = ("template", "main", "--kube-version", "1.30.0")
SETTINGS = {setting.variable: setting for setting in all_settings({"HOME": "/root"})}


def of_the_guide() -> dict[str, Any]:
    """The values that docs/operating.md shows."""
    text = (CHART.parents[1] / "docs" / "operating.md").read_text()
    (shown,) = re.findall(r"```yaml\n(# coterie\.yaml.*?)```", text, re.DOTALL)
    found: dict[str, Any] = YAML(typ="safe").load(shown)
    return found


VALUES = of_the_guide()
VALUES["director"]["settings"] = {"COTERIE_CLEANUP_SCHEDULE": "0 3 * * *", "COTERIE_CLEANUP_APPLY": True}
VALUES["conductors"].append({**VALUES["conductors"][0], "group": "Rack_2", "drivers": ["openstack", "vsphere"]})


def run(words: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=text, capture_output=True, text=True)


def helm(tmp_path: Path, values: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    if not HELM:
        pytest.skip("needs helm, which `make test-packages` builds")
    file = tmp_path / "values.yaml"
    YAML().dump(values, file)
    return run([f"{HELM}/helm", *words, str(CHART), "--values", str(file)])


def render(tmp_path: Path, values: dict[str, Any]) -> str:
    done = helm(tmp_path, values, *TEMPLATE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> list[dict[str, Any]]:
    return [one for one in YAML(typ="safe").load_all(text) if one]


def containers(text: str) -> Iterator[dict[str, Any]]:
    for one in objects(text):
        if one["kind"] == "StatefulSet":
            yield from one["spec"]["template"]["spec"]["containers"]


def test_helm_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    done = helm(tmp_path, VALUES, "lint", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


def test_kubernetes_own_types_take_every_object(tmp_path: Path) -> None:
    done = run([f"{HELM}/judge"], render(tmp_path, VALUES))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")[:-1]) == [
        "PodDisruptionBudget main-conductor-rack-2",
        "PodDisruptionBudget main-conductor-rack1",
        "PodDisruptionBudget main-director",
        "Service main-director",
        "StatefulSet main-conductor-rack-2",
        "StatefulSet main-conductor-rack1",
        "StatefulSet main-director",
    ]
    wrong = run([f"{HELM}/judge"], render(tmp_path, VALUES).replace("replicas: 2", "replicas: two", 1))
    assert wrong.returncode == 1


def test_what_is_started_and_set_exists(tmp_path: Path) -> None:
    started = list(containers(render(tmp_path, VALUES)))
    assert sorted(one["name"] for one in started) == ["conductor", "conductor", "director"]
    for one in started:
        accept(one["args"])
        for entry in one["env"]:
            if entry["name"] != "PGPASSWORD" and "value" in entry:
                SETTINGS[entry["name"]].read(entry["value"])
            assert entry["name"] == "PGPASSWORD" or entry["name"] in SETTINGS
    told = {one["name"]: {entry["name"]: entry.get("value") for entry in one["env"]} for one in started}
    assert told["director"]["COTERIE_CLEANUP_APPLY"] == "true"
    groups = {
        (env["COTERIE_CONDUCTOR_GROUP"], env["COTERIE_DRIVERS"])
        for env in ({entry["name"]: entry.get("value") for entry in one["env"]} for one in started)
        if "COTERIE_DRIVERS" in env
    }
    assert groups == {("rack1", "openstack"), ("Rack_2", "openstack,vsphere")}
    assert str(told["conductor"]["COTERIE_DATABASE"]).startswith(
        "postgresql://coterie_rack1@db.example:5432/coterie?sslmode=verify-full"
    )


def test_every_volume_is_mounted_and_every_mount_has_a_volume(tmp_path: Path) -> None:
    for one in objects(render(tmp_path, VALUES)):
        if one["kind"] != "StatefulSet":
            continue
        spec = one["spec"]["template"]["spec"]
        claims = [claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])]
        used = [part for kind in ("initContainers", "containers") for part in spec.get(kind, [])]
        mounts = {mount["name"] for part in used for mount in part["volumeMounts"]}
        assert mounts == {*claims, *(volume["name"] for volume in spec["volumes"])}


def test_a_selector_finds_the_pods_of_its_own_part_only(tmp_path: Path) -> None:
    found = objects(render(tmp_path, VALUES))
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in found
        if "template" in one["spec"]
    }
    assert len({str(labels) for labels in pods.values()}) == len(pods) == 3
    for one in found:
        selector = one["spec"]["selector"].get("matchLabels", one["spec"]["selector"])
        matching = [name for name, labels in pods.items() if selector.items() <= labels.items()]
        assert matching == [one["metadata"]["name"]]


def test_nothing_runs_as_root_or_writes_to_its_image(tmp_path: Path) -> None:
    for one in objects(render(tmp_path, VALUES)):
        if one["kind"] == "StatefulSet":
            spec = one["spec"]["template"]["spec"]
            assert spec["securityContext"]["runAsNonRoot"] and spec["automountServiceAccountToken"] is False
            for part in [*spec["containers"], *spec.get("initContainers", [])]:
                assert part["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image": ""}, "set image"),
        ({"database": {"host": ""}}, "set database.host"),
        ({"director": {"tlsSecret": ""}}, "set director.tlsSecret"),
        ({"director": {"passwordSecret": {"name": ""}}}, "director"),
        ({"conductors": [{"group": "a"}]}, "keySecret"),
        ({"directors": {}}, "directors"),
        ({"director": {"settings": {"PATH": "x"}}}, "PATH"),
    ],
)
def test_a_mistake_in_the_values_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    values = copy.deepcopy(VALUES)
    for name, value in change.items():
        values[name] = {**values[name], **value} if isinstance(values.get(name), dict) else value
    done = helm(tmp_path, values, *TEMPLATE)
    assert done.returncode != 0 and said in done.stderr


def test_settings_of_the_chart_exist() -> None:
    named = {
        name for file in CHART.rglob("*.yaml") for name in re.findall(r"name: (COTERIE_[A-Z_]+)", file.read_text())
    }
    assert len(named) > 5 and named <= SETTINGS.keys()


def test_the_chart_is_of_this_release() -> None:
    assert YAML(typ="safe").load(CHART / "Chart.yaml")["appVersion"] == __version__
