"""A foreign CPI program that speaks version 2 only and knows nothing of Coterie. Its cloud is one JSON file."""

import fcntl
import json
import os
import sys
import uuid

VM_KEYS = {"cpu", "ram_mb", "disk_mb", "zone"}
MOST_CPUS = 64


class Failure(Exception):
    def __init__(self, kind, message, retry=False):
        self.error = {"type": kind, "message": message, "ok_to_retry": retry}


def main():
    request = json.load(sys.stdin)
    try:
        print(json.dumps({"result": answer(request), "error": None, "log": ""}))
    except Failure as failure:
        print(json.dumps({"result": None, "error": failure.error, "log": ""}))


def answer(request):
    name, arguments = request["method"], request["arguments"]
    if name == "info":
        return {"api_version": 2, "stemcell_formats": ["tiny-raw"]}
    if request.get("api_version") != 2:
        raise Failure("Bosh::Clouds::NotImplemented", f"api_version {request.get('api_version')} is not spoken")
    if name not in METHODS:
        raise Failure("InvalidCall", f"Method is not known, got '{name}'")
    path = request["context"]["state"]
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return perform(path, name, arguments)


def perform(path, name, arguments):
    state = {"image": {}, "vm": {}, "disk": {}, "faults": {}}
    if os.path.exists(path):
        with open(path) as file:
            state = json.load(file)
    fault = state["faults"].pop(name, None)
    if fault == "fail":
        save(path, state)
        raise Failure("Bosh::Clouds::CloudError", "the cloud has hiccups")
    result = METHODS[name](state, *arguments)
    save(path, state)
    if fault == "lose":
        sys.exit(1)
    return result


def save(path, state):
    with open(path + ".new", "w") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)


def new(state, kind, facts):
    cid = f"{kind}-{uuid.uuid4()}"
    state[kind][cid] = facts
    return cid


def the(state, kind, cid):
    if cid not in state[kind]:
        raise Failure(f"Bosh::Clouds::{'VM' if kind == 'vm' else 'Disk'}NotFound", f"{kind} {cid!r} does not exist")
    return state[kind][cid]


def create_stemcell(state, image_path, properties):
    if not os.path.isfile(image_path):
        raise Failure("Bosh::Clouds::CloudError", f"no image at {image_path}")
    return new(state, "image", properties)


def create_vm(state, agent_id, stemcell, properties, networks, disks, env):
    unknown = sorted(set(properties) - VM_KEYS)
    if unknown:
        raise Failure("Bosh::Clouds::CloudError", f"cloud_properties: unknown key {unknown[0]}")
    if stemcell not in state["image"]:
        raise Failure("Bosh::Clouds::CloudError", f"stemcell {stemcell!r} does not exist")
    if properties["cpu"] > MOST_CPUS:
        raise Failure("Bosh::Clouds::VMCreationFailed", f"no host has {properties['cpu']} cpus", True)
    ips = [one["ip"] for one in networks.values() if one.get("type") == "manual"]
    taken = {ip for vm in state["vm"].values() for ip in vm["ips"]}
    if taken & set(ips):
        raise Failure("Bosh::Clouds::VMCreationFailed", f"{sorted(taken & set(ips))[0]} is in use")
    return [new(state, "vm", {"ips": ips, "metadata": {}}), networks]


def delete_vm(state, vm):
    the(state, "vm", vm)
    for disk in state["disk"].values():
        if disk["vm"] == vm:
            disk["vm"] = None
    del state["vm"][vm]


def calculate(state, wanted):
    if wanted["cpu"] > MOST_CPUS:
        raise Failure("Bosh::Clouds::CloudError", f"no VM has {wanted['cpu']} cpus")
    return {"cpu": wanted["cpu"], "ram_mb": wanted["ram"], "disk_mb": wanted["ephemeral_disk_size"]}


def create_disk(state, size, properties, vm):
    return new(state, "disk", {"size": size, "vm": None})


def delete_disk(state, disk):
    if the(state, "disk", disk)["vm"]:
        raise Failure("Bosh::Clouds::CloudError", f"disk {disk} is attached")
    del state["disk"][disk]


def attach_disk(state, vm, disk):
    the(state, "vm", vm)
    if the(state, "disk", disk)["vm"] not in (None, vm):
        raise Failure("Bosh::Clouds::CloudError", f"disk {disk} is attached elsewhere")
    state["disk"][disk]["vm"] = vm
    return {"volume_id": disk}


def detach_disk(state, vm, disk):
    the(state, "vm", vm)
    if the(state, "disk", disk)["vm"] != vm:
        raise Failure("Bosh::Clouds::DiskNotAttached", f"disk {disk} is not attached to {vm}")
    state["disk"][disk]["vm"] = None


def get_disks(state, vm):
    the(state, "vm", vm)
    return [cid for cid, disk in state["disk"].items() if disk["vm"] == vm]


METHODS = {
    "create_stemcell": create_stemcell,
    "delete_stemcell": lambda state, cid: state["image"].pop(cid, None) and None,
    "create_vm": create_vm,
    "delete_vm": delete_vm,
    "has_vm": lambda state, vm: vm in state["vm"],
    "reboot_vm": lambda state, vm: the(state, "vm", vm) and None,
    "set_vm_metadata": lambda state, vm, metadata: the(state, "vm", vm)["metadata"].update(metadata),
    "calculate_vm_cloud_properties": calculate,
    "create_disk": create_disk,
    "delete_disk": delete_disk,
    "has_disk": lambda state, disk: disk in state["disk"],
    "attach_disk": attach_disk,
    "detach_disk": detach_disk,
    "get_disks": get_disks,
}

if __name__ == "__main__":
    main()
