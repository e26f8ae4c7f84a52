"""What changes the cloud of a test bed besides the driver: an operator who does not set marks, and faults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from coterie.cpi.contract import GroupResource, Kind


class Operator(ABC):
    """Another user of the same cloud, who does not set marks."""

    @abstractmethod
    def create_vm(self, name: str, az: str) -> str:
        """A VM of the operator's; its cid."""

    @abstractmethod
    def create_group(self, name: str, policy: str, az: str) -> str:
        """A group resource of that name, as the cloud can hold one (with a member if it must have one); its cid."""

    @abstractmethod
    def create_security_group(self, name: str) -> str: ...

    @abstractmethod
    def create(self, kind: Kind, az: str) -> str | None:
        """An object of this kind, with nothing written on it; None where this cloud has no such kind."""

    @abstractmethod
    def keep(self, kind: Kind, cid: str) -> bool:
        """Writes `coterie-keep` on an object of ours, in any way that the cloud gives people; False: it gives none."""

    @abstractmethod
    def copy(self, kind: Kind, cid: str) -> str | None:
        """Another object of this kind, with our mark as it stands on this one; None: people make no such objects."""

    @abstractmethod
    def share(self, image_cid: str) -> bool:
        """Lets another project, account or tenant of the cloud use our image; False: the cloud has no such thing."""

    @abstractmethod
    def join(self, vm_cid: str, resource: GroupResource) -> str:
        """Puts a VM of the operator's into a group resource of ours: `vm_cid`, or the one that it had to make."""

    @abstractmethod
    def delete(self, kind: Kind, cid: str) -> None:
        """Behind our back. Gone already is fine."""

    @abstractmethod
    def exists(self, kind: Kind, cid: str) -> bool: ...


class Faults(ABC):
    """Makes the peer misbehave, once, in the next call of a method of the contract."""

    @abstractmethod
    def fail(self, method: str) -> None:
        """The cloud refuses and does nothing."""

    @abstractmethod
    def throttle(self, method: str) -> None:
        """Too many calls; nothing is done."""

    @abstractmethod
    def lose_answer(self, method: str) -> None:
        """The cloud does the work, and the answer is lost."""

    @abstractmethod
    def late(self, method: str) -> None:
        """What the call makes shows up in lists and searches a while later, within the declared settle time."""

    @abstractmethod
    def clear(self) -> None: ...

    # Ends the sessions of all drivers, as an administrator or an idle time would; None: they hold none.
    expire: Callable[[], None] | None = None
