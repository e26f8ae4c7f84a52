"""A request to the front, and how the front is set up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coterie.sandbox.fronts.azure.definition import Operation
from coterie.sandbox.fronts.azure.shelf import Body
from coterie.sandbox.fronts.http_server import Reply

LOCATION = "westeurope"


@dataclass
class Settings:
    """How the front behaves; `coterie sandbox serve --set NAME=VALUE` sets them. `operation_s`: how long operations
    take. `list_lag_s`: how long new resources are missing in lists. `nic_reservation_s`: how long a failed VM keeps its
    NICs. `address_prefix`: of the subnet that is there from the beginning."""

    operation_s: float = 0.0
    retry_after_s: int = 0
    list_lag_s: float = 0.0
    nic_reservation_s: float = 180.0
    page_size: int = 50
    address_prefix: str = "10.0.0.0/8"
    throttle: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(slots=True)
class Call:
    """A request that the definition knows."""

    operation: Operation
    names: Mapping[str, str]
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Body
    origin: str

    @property
    def type(self) -> str:
        return self.operation.type

    @property
    def group(self) -> str:
        return self.names["resourceGroupName"]

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def version(self) -> str:
        return self.query["api-version"]


Handler = Callable[[Call], Reply]
