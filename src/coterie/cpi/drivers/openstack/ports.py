"""Ports: made by us before their VM, so that its addresses and cards are known, and so that its mark is in the cloud
first. A port with a static address can be made once only: its maker, and nobody else, boots on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coterie.cpi.contract import Json, Mark, VMCreationFailed
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.kinds import LISTINGS
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.marking import director_tag
from coterie.cpi.drivers.openstack.nics import Card
from coterie.cpi.drivers.openstack.refusals import CONFLICT, MISSING, Refusal

_LEAVES = "coterie-leaves-"  # a port's tag: the server that is being deleted, whatever becomes of us


@dataclass(frozen=True, slots=True)
class Ports:
    """By the name of each network; `mine`: whether this very call made the first one."""

    by_label: Mapping[str, Row]
    mine: bool

    @property
    def first(self) -> Row:
        """The card with the default gateway: floating addresses lead there."""
        return next(iter(self.by_label.values()))

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(str(port["id"]) for port in self.by_label.values()))


class PortCalls(Lookups):
    def plug(self, cards: Sequence[Card], guards: Mapping[str, Sequence[str]], mark: Mark) -> Ports:
        """A port for each card; `guards`: security groups by the card's label. Whoever made the first is the VM's
        maker."""
        found: dict[str, Row] = {}
        mine = True
        fixed = [ip for card in cards for ip in card.ips]
        for number, card in enumerate(cards):
            body = self._body(card, guards[card.label], mark)
            if card.ips:
                port, made = self._fixed_port(body, mark)
            else:
                port, made = self._free_port(body, mark, [str(one["id"]) for one in found.values()], fixed)
            mine = made if number == 0 else mine
            found.update(dict.fromkeys(card.labels, port))
        return Ports(found, mine)

    def effect(self, domain: str, change: Json) -> Json:
        """As the only one who plugs cards without an address into this VM: the first port that fits and is no other
        card's, or a new one."""
        if change["kind"] != "port":
            return super().effect(domain, change)
        mark, body = Mark.of_wire(change["mark"]), change["body"]

        def fitting() -> list[Row]:
            rows = [row for row in self.marked("port", mark) if row["network_id"] == body["network_id"]]
            rows = [row for row in rows if not _addresses(row) & set(change["fixed"])]
            return [row for row in rows if row["id"] not in change["taken"]]

        found = fitting()
        if found:
            return {"id": found[0]["id"], "made": False}
        self.runtime.coordinator.hold(domain)
        return self.elected("port", str(self.made("port", mark, body)["id"]), fitting())

    def unplug(self, ports: Sequence[Row]) -> None:
        for port in ports:
            try:
                self.api.send("DELETE", f"delete port {port['id']}", "network", f"/ports/{port['id']}")
            except Refusal as error:
                if error.status != MISSING:
                    raise

    def leaving(self, server: str) -> list[Row]:
        """Ports of ours whose server was being deleted when somebody last touched them."""
        note = f"{_LEAVES}{server}"
        return [
            row
            for row in self.rows("port", tags=note)
            if self.port_mark(row) and note in (row.get("tags") or ()) and row.get("device_id") in (None, "", server)
        ]

    def note_leaving(self, ports: Sequence[Row], server: str) -> None:
        """Nova takes its own id off a port when it deletes a server; then only this note says whose it was."""
        note = f"{_LEAVES}{server}"
        for port in ports:
            if note not in (port.get("tags") or ()):
                self._put(port, f"/tags/{note}", None)

    def change_port(self, port: Row, change: Json) -> None:
        self._put(port, "", {"port": change})

    def port_mark(self, port: Row) -> Mark | None:
        return LISTINGS["port"].mark(port, self.runtime.director_uuid)

    def _put(self, port: Row, below: str, body: Json | None) -> None:
        try:
            self.api.send("PUT", f"change port {port['id']}", "network", f"/ports/{port['id']}{below}", body)
        except Refusal as error:
            if error.status != MISSING:
                raise

    def _body(self, card: Card, guards: Sequence[str], mark: Mark) -> Json:
        return {
            "network_id": self.network(card.network)["id"],
            "name": mark.name(),
            "description": director_tag(mark.director),
            **({"security_groups": list(guards)} if guards else {}),
            **({"fixed_ips": [{"ip_address": ip} for ip in card.ips]} if card.ips else {}),
        }

    def _fixed_port(self, body: Json, mark: Mark) -> tuple[Row, bool]:
        try:
            return self.made("port", mark, body), True
        except Refusal as error:
            if error.status != CONFLICT or error.quota:
                raise
        return self._after_conflict(body, mark)

    def _free_port(self, body: Json, mark: Mark, taken: list[str], fixed: list[str]) -> tuple[Row, bool]:
        """Without an address of its own a port could be made twice. `taken`: ports of the VM's cards before this one;
        `fixed`: addresses of all its cards that have one."""
        change = {"kind": "port", "mark": mark.wire(), "body": body, "taken": taken, "fixed": fixed}
        outcome = self.submit("port", mark.intent, change)
        return self.row("port", str(outcome["id"])) or {"id": outcome["id"]}, bool(outcome["made"])

    def _after_conflict(self, body: Json, mark: Mark) -> tuple[Row, bool]:
        """Whoever has the address: this very VM, one of ours that is gone, or somebody who keeps it."""
        for ip in [one["ip_address"] for one in body["fixed_ips"]]:
            for port in list(self.rows("port", network_id=body["network_id"], fixed_ips=f"ip_address={ip}")):
                if ip not in _addresses(port) or port["network_id"] != body["network_id"]:
                    continue  # a filter that was ignored proves nothing
                holder = self.port_mark(port)
                if holder == mark:
                    return port, False
                if holder is None or not self._abandoned(port, holder):
                    raise _taken(ip, port, ours=holder is not None)
                self.unplug([port])
        return self.made("port", mark, body), True

    def _abandoned(self, port: Row, holder: Mark) -> bool:
        """A port of ours on which no server is, nor one that could still be given it."""
        return not port.get("device_id") and not self.marked("vm", holder)


def _addresses(port: Row) -> set[str]:
    return {str(one["ip_address"]) for one in port.get("fixed_ips") or ()}


def _taken(ip: str, port: Row, *, ours: bool) -> VMCreationFailed:
    user = port.get("device_id")
    return VMCreationFailed(
        f"address {ip} is taken",
        why=f"port {port['id']} has it" + (f", of {port.get('device_owner') or 'device'} {user}" if user else ""),
        remedy="use another address, or delete what has it",
        retryable=bool(user and ours),
    )
