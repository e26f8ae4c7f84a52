"""What is written for drivers, checked by their own forms: all mistakes at once, where they are written."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import Form, Forms
from coterie.cpi.kit.readers import size, text
from coterie.cpi.load import driver_names, forms_of
from tests.manifest.documents import CONFIG, DEPLOYMENT, edited, line_of, mistakes_of_both, mistakes_of_config

TWO_DRIVERS = edited(
    CONFIG,
    ("- name: lab\n  driver: sandbox\n", "- name: lab\n  driver: sandbox\n- name: far\n  driver: picky\n"),
    ("- name: z2\n  cloud: lab\n  cloud_properties: {zone: z2}", "- name: z2\n  cloud: far\n  cloud_properties: {}"),
)
PICKY: Forms = {"vm": Form({"flavor": text, "cpu": size}, needed={"flavor": "name a flavor"})}


def both(driver: str) -> Forms:
    return PICKY if driver == "picky" else forms_of(driver)


def test_what_is_right_is_right() -> None:
    assert mistakes_of_config(CONFIG, forms_of=forms_of) == []
    assert mistakes_of_both(forms_of=forms_of) == []


def test_all_mistakes_of_a_config_are_told_where_they_are_written() -> None:
    wrong = edited(
        CONFIG,
        ("driver: sandbox\n", "driver: sandbox\n  properties:\n    grupos: x\n    settle_s: s3cret\n"),
        ("{zone: z2}", "{zone: 2}"),
        ("{cpu: 1}", "{cpu: two, wat: 1}"),
        ("disk_size: 10240", "disk_size: 10240\n  cloud_properties: {tier: ssd}"),
        ("    az: z2", "    az: z2\n    cloud_properties: {net: x}"),
        ("type: dynamic", "type: dynamic\n  cloud_properties: {name: 7}"),
    )
    found = mistakes_of_config(wrong, drivers=["sandbox"], forms_of=forms_of)
    assert [(one["field"], one["line"]) for one in found] == [
        ("clouds[lab].properties.grupos", line_of(wrong, "grupos")),
        ("clouds[lab].properties.settle_s", line_of(wrong, "settle_s")),
        ("azs[z2].cloud_properties.zone", line_of(wrong, "{zone: 2}")),
        ("vm_types[small].cloud_properties.cpu", line_of(wrong, "cpu: two")),
        ("vm_types[small].cloud_properties.wat", line_of(wrong, "wat")),
        ("disk_types[log].cloud_properties.tier", line_of(wrong, "tier")),
        ("networks[default].subnets[1].cloud_properties.net", line_of(wrong, "net: x")),
        ("networks[cloudy].cloud_properties.name", line_of(wrong, "name: 7")),
    ]
    assert all("says driver 'sandbox'" in one["what"] and one["remedy"] for one in found)
    assert "s3cret" not in str(found)


def test_sealed_properties_are_left_to_the_conductors() -> None:
    sealed = edited(CONFIG, ("driver: sandbox\n", "driver: sandbox\n  properties: {sealed: whatever}\n"))
    assert mistakes_of_config(sealed, forms_of=forms_of) == []


def test_types_that_drivers_share_are_checked_only_where_they_are_used() -> None:
    assert mistakes_of_config(TWO_DRIVERS, forms_of=both) == []
    found = mistakes_of_both(config=TWO_DRIVERS, forms_of=both)
    vm_types = {line_of(DEPLOYMENT, "vm_type: small"), line_of(DEPLOYMENT, "vm_type: large")}
    assert {(one["file"], one["line"]) for one in found} <= {("kafka.yml", line) for line in vm_types}
    assert found
    assert all("cloud_properties.flavor is missing, says driver 'picky', for az 'z2'" in one["what"] for one in found)


def test_a_mistake_in_a_shared_type_is_told_once_however_many_use_it() -> None:
    config = edited(TWO_DRIVERS, ("cloud_properties: {}", "cloud_properties: {flavor: m, wat: 1}"))
    (found,) = mistakes_of_both(config=config, forms_of=both)
    assert (found["file"], found["field"]) == ("cloud.yml", "azs[z2].cloud_properties.wat")


def test_a_type_s_own_word_counts_before_the_az_s() -> None:
    config = edited(TWO_DRIVERS, ("cloud_properties: {}", "cloud_properties: {flavor: m, cpu: none}"))
    assert mistakes_of_both(config=config, forms_of=both, in_force=True) == []
    assert [one["field"] for one in mistakes_of_both(config=config, forms_of=both)] == ["azs[z2].cloud_properties.cpu"]


def test_a_config_in_force_is_asked_only_for_what_the_manifest_uses() -> None:
    """So a release with stricter forms blocks no existing deployment."""
    config = edited(CONFIG, ("{cpu: 1}", "{cpu: two}"), ("type: dynamic", "type: dynamic\n  cloud_properties: {x: 1}"))
    fields = [one["field"] for one in mistakes_of_both(config=config, forms_of=forms_of)]
    assert fields == ["vm_types[small].cloud_properties.cpu", "networks[cloudy].cloud_properties.x"]
    alone = DEPLOYMENT.replace("vm_type: small", "vm_type: large")
    assert mistakes_of_both(alone, config, forms_of=forms_of, in_force=True) == []


@pytest.mark.parametrize("driver", driver_names())
@pytest.mark.parametrize("secret", ["s3cret-word", ["s3cret-word"], {"key": "s3cret-word"}, 5, -1, True])
def test_no_driver_repeats_what_stands_in_a_cloud_s_properties(driver: str, secret: Any) -> None:
    form = forms_of(driver)["cloud"]
    for key in (*form.readers, "nonesuch"):
        assert "s3cret-word" not in str(form.mistakes({key: secret}))
    told = {mistake.key for mistake in form.mistakes(dict.fromkeys((*form.readers, "nonesuch"), object()))}
    assert told == {*form.readers, "nonesuch"}
