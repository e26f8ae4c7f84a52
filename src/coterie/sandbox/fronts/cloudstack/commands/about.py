"""What the cloud says of itself: capabilities, settings, commands, zones, accounts."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import configuration, places
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import HANDLERS, answers
from coterie.sandbox.fronts.cloudstack.definition import commands, version
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows
from coterie.sandbox.quotas import get_quotas

# the datacenter's quota → the vendor's word for it
_QUOTAS = {
    "instances": "vm",
    "cpu": "cpu",
    "ram_mb": "memory",
    "volumes": "volume",
    "volume_gb": "primarystorage",
    "snapshots": "snapshot",
    "images": "template",
}


@answers("listCapabilities")
def list_capabilities(call: Call) -> Row:
    admin = call.caller.admin
    return {
        "cloudstackversion": version(),
        "securitygroupsenabled": call.flag("coterie.security.groups"),
        "allowuserexpungerecovervm": admin or call.flag("allow.user.expunge.recover.vm"),
        "allowuserviewdestroyedvm": admin or call.flag("allow.user.view.destroyed.vm"),
        "kvmsnapshotenabled": True,
        "userpublictemplateenabled": True,
        "customdiskofferingminsize": 1,
        "customdiskofferingmaxsize": 1024,
        "regionsecondaryenabled": False,
        "supportELB": "false",
    }


@answers("listZones")
def list_zones(call: Call) -> Iterator[Row]:
    has_security_groups = call.flag("coterie.security.groups")
    rows = (
        {
            "id": places.id_of("zone", zone),
            "name": zone,
            "networktype": "Advanced",
            "securitygroupsenabled": has_security_groups,
            "localstorageenabled": True,
            "allocationstate": "Enabled",
            "dhcpprovider": "VirtualRouter",
            "type": "Core",
        }
        for zone in places.zones(call.tx)
    )
    return filter_rows(call, rows, "id", "name", "networktype")


@answers("listOsTypes")
def list_os_types(call: Call) -> Iterator[Row]:
    rows = (
        {"id": places.id_of("ostype", name), "name": name, "description": name, "isuserdefined": False}
        for name in places.OS_TYPES
    )
    return filter_rows(call, rows, "id", "description", like=("description",))


@answers("listHypervisors")
def list_hypervisors(call: Call) -> Iterator[Row]:
    return iter([{"name": places.HYPERVISOR}])


@answers("listConfigurations")
def list_configurations(call: Call) -> Iterator[Row]:
    rows = (_setting(call, name) for name in configuration.KNOWN)
    return filter_rows(call, rows, "name")


@answers("updateConfiguration", writes=True)
def update_configuration(call: Call) -> Row:
    configuration.change(call.tx.db, call.params["name"], str(call.get("value", "")))
    return _setting(call, call.params["name"])


@answers("listApis")
def list_apis(call: Call) -> Iterator[Row]:
    wanted = str(call.get("name") or "").lower()
    for key, command in commands().items():
        if key in HANDLERS and wanted in ("", key) and (call.caller.admin or not command.admin):
            yield {"name": command.name, "isasync": command.asynchronous}


@answers("listAccounts")
def list_accounts(call: Call) -> Iterator[Row]:
    row = {
        "id": places.id_of("account", call.caller.account),
        "name": call.caller.account,
        "accounttype": 1 if call.caller.admin else 0,
        "domain": "ROOT",
        "domainid": places.id_of("domain", "ROOT"),
        "state": "enabled",
        **_usage(call),
    }
    return filter_rows(call, [row], "id", "name")


@answers("listUsers")
def list_users(call: Call) -> Iterator[Row]:
    row = {
        "id": places.id_of("user", call.caller.user),
        "username": call.caller.user,
        "account": call.caller.account,
        "accountid": places.id_of("account", call.caller.account),
        "domain": "ROOT",
        "domainid": places.id_of("domain", "ROOT"),
        "state": "enabled",
        "apikey": call.params.get("apikey"),
    }
    return filter_rows(call, [row], "id", "username", "account")


def _usage(call: Call) -> Row:
    quotas = work_of(get_quotas)(call.tx)
    row: Row = {}
    for resource, word in _QUOTAS.items():
        ceiling = quotas[resource].ceiling
        row[f"{word}limit"] = "Unlimited" if ceiling is None else str(ceiling)
        row[f"{word}total"] = quotas[resource].used
    return row


def _setting(call: Call, name: str) -> Row:
    return {
        "name": name,
        "value": configuration.text(call.tx.db, name),
        "description": configuration.KNOWN[name][1],
        "category": "Advanced",
    }
