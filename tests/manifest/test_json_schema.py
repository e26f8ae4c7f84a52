"""The JSON Schemas take what Coterie takes, judged by a validator that knows nothing of Coterie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from coterie.cpi.load import driver_names, forms_of
from coterie.errors import NotFound
from coterie.manifest import explain
from coterie.manifest.json_schema import cloud_config_schema, manifest_schema

EXAMPLES = Path(__file__).parents[2] / "examples"
FORMS = {driver: forms_of(driver) for driver in driver_names()}
MANIFEST = jsonschema_rs.validator_for(manifest_schema())
CONFIG = jsonschema_rs.validator_for(cloud_config_schema(FORMS))


def mistakes(validator: Any, document: Any) -> list[str]:
    return ["/".join(map(str, error.instance_path)) for error in validator.iter_errors(document)]


@pytest.mark.parametrize("name", ["kafka.yml", "kafka-v2.yml", "two-clouds.yml"])
def test_the_example_manifests_fit(name: str) -> None:
    assert mistakes(MANIFEST, yaml.safe_load((EXAMPLES / name).read_text())) == []


@pytest.mark.parametrize("name", ["cloud.yml", "two-clouds-config.yml"])
def test_the_example_cloud_configs_fit(name: str) -> None:
    assert mistakes(CONFIG, yaml.safe_load((EXAMPLES / name).read_text())) == []


def test_mistakes_are_found_where_they_are() -> None:
    document = yaml.safe_load((EXAMPLES / "kafka.yml").read_text())
    document["instance_groups"][0]["instances"] = "three"
    document["instance_groups"][1]["placement"]["policy"] = "apart"
    document["name"] = "two words"
    document["update"]["max_in_flight"] = "many"
    found = set(mistakes(MANIFEST, document))
    assert found == {
        "name",
        "update/max_in_flight",
        "instance_groups/0/instances",
        "instance_groups/1/placement",  # which may also be null, so the error is about the whole value
    }


def cloud(driver: str, **properties: Any) -> dict[str, Any]:
    return {
        "clouds": [{"name": "lab", "driver": driver, "properties": properties}],
        "azs": [{"name": "z", "cloud": "lab"}],
    }


@pytest.mark.parametrize("driver", sorted(FORMS))
def test_the_properties_of_each_driver(driver: str) -> None:
    form = FORMS[driver]["cloud"]
    assert mistakes(CONFIG, cloud(driver, **form.example)) == []
    assert mistakes(CONFIG, cloud(driver, sealed="…")) == []
    assert mistakes(CONFIG, cloud(driver, **form.example, no_such_key=1)) == ["clouds/0/properties"]
    for key in form.needed:
        assert mistakes(CONFIG, cloud(driver, **{k: v for k, v in form.example.items() if k != key}))


def test_a_driver_that_is_not_installed_may_have_any_properties() -> None:
    assert mistakes(CONFIG, cloud("of_another_package", anything=1)) == []


PLACES = [(driver, place) for driver, places in FORMS.items() for place in places]


@pytest.mark.parametrize(("driver", "place"), PLACES)
def test_examples_and_words_of_each_form(driver: str, place: Any) -> None:
    form = FORMS[driver][place]
    assert form.mistakes(form.example) == []
    assert [key for key in form.readers if not form.how_to_write(key)] == []


def test_explain_knows_what_drivers_take() -> None:
    whole = explain("clouds.properties@openstack", forms_of)
    assert "auth_url" in whole.children and "auth_url" in whole.example
    one = explain("vm_types.cloud_properties@openstack.instance_type", forms_of)
    assert one.required and "flavor" in one.description and one.example == "m1.small"
    for path, close in (
        ("clouds.properties@openstack.auth_uri", "auth_url"),
        ("azs.name@openstack", "clouds.properties"),
    ):
        with pytest.raises(NotFound) as refused:
            explain(path, forms_of)
        assert close in refused.value.remedy
    with pytest.raises(NotFound, match="not installed"):
        explain("clouds.properties@nimbus", forms_of)
