"""Custom attributes of VMs: what people see of a VM's metadata, and which group it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.places import Places
from coterie.cpi.drivers.vsphere.refusals import Refusal

_VM = "VirtualMachine"


class Attributes(Places):
    _keys: Mapping[str, int] = {}

    def describe(self, machine: Any, attributes: Mapping[str, str]) -> None:
        """Set these; a definition that is missing is made."""
        fields = self.link.content.customFieldsManager
        for name, value in attributes.items():
            self.link.change(fields.SetField, machine, self._key(name), value)

    def described(self, values: Any) -> dict[str, str]:
        """The attributes behind a `customValue`, by name."""
        found = {int(one.key): str(one.value) for one in values or ()}
        if not set(found) <= set(self._keys.values()):
            self._read_keys()
        names = {key: name for name, key in self._keys.items()}
        return {names[key]: value for key, value in found.items() if key in names}

    def _key(self, name: str) -> int:
        if name not in self._keys:
            self._read_keys()
        if name in self._keys:
            return self._keys[name]
        try:
            # without a type the definition would be one for every kind of object, and cost a wider privilege
            self.link.change(self.link.content.customFieldsManager.AddCustomFieldDef, name, sdk.vim.VirtualMachine)
        except Refusal as refusal:
            if not refusal.is_a("DuplicateName"):
                raise
        self._read_keys()
        return self._keys[name]

    def _read_keys(self) -> None:
        fields = self.reader.one(self.link.content.customFieldsManager, "field").get("field") or ()
        self._keys = {str(one.name): int(one.key) for one in fields if _of_vms(one)}


def _of_vms(one: Any) -> bool:
    kind = one.managedObjectType
    return kind is None or _VM in str(getattr(kind, "__name__", kind))
