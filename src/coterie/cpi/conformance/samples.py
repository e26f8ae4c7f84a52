"""One well-formed call per method, on things that do not exist: enough to see a declared refusal."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import Cpi, Expected, GroupMetadata, Mark

_NOBODY = "no-such-thing"


def sample_call(cpi: Cpi, method: str, mark: Mark) -> Any:
    metadata = GroupMetadata({"name": "conformance", "uuid": mark.director}, "kit", "broker")
    arguments: dict[str, tuple[Any, ...]] = {
        "create_stemcell": (_NOBODY, {}),
        "create_vm": (_NOBODY, _NOBODY, {}, {}, [], {}),
        "set_vm_metadata": (_NOBODY, {}),
        "calculate_vm_cloud_properties": ({"cpu": 1, "ram": 512, "ephemeral_disk_size": 1024},),
        "create_disk": (1024, {}),
        "attach_disk": (_NOBODY, _NOBODY),
        "detach_disk": (_NOBODY, _NOBODY),
        "set_disk_metadata": (_NOBODY, {}),
        "resize_disk": (_NOBODY, 2048),
        "update_disk": (_NOBODY, 2048, {}),
        "snapshot_disk": (_NOBODY, {}),
        "create_network": ({"type": "manual", "cloud_properties": {}},),
        "configure_networks": (_NOBODY, {}),
        "create_server_group": (metadata,),
        "update_server_group": (mark.group_cid, metadata),
        "find": ("vm", mark),
        "survey": ("vm", mark.director),
        "delete_object": ("vm", _NOBODY, Expected(mark)),
        "current_vm_id": (),
    }
    keywords = {"mark": mark} if method in _MARKED else {}
    return getattr(cpi, method)(*arguments.get(method, (_NOBODY,)), **keywords)


_MARKED = ("create_stemcell", "create_vm", "create_disk", "snapshot_disk", "create_network", "create_server_group")
