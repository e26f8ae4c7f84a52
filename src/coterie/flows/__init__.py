"""One workflow per file, and the table that names them."""

from coterie.engine.flow import Flow
from coterie.flows.disk import DeleteDisk
from coterie.flows.enrolled import DestroyNode
from coterie.flows.grant import Grant
from coterie.flows.group import CreateGroup, DeleteGroup, RepairGroup, UpdateGroup
from coterie.flows.look import Look
from coterie.flows.node import CreateNode, DeleteNode, RecreateNode, UpdateNode
from coterie.flows.reclaim import ReclaimNode
from coterie.flows.stemcell import DeleteStemcell, UploadStemcell

_ALL: tuple[Flow, ...] = (
    UploadStemcell(),
    DeleteStemcell(),
    CreateGroup(),
    UpdateGroup(),
    RepairGroup(),
    DeleteGroup(),
    CreateNode(),
    RecreateNode(),
    UpdateNode(),
    DeleteNode(),
    ReclaimNode(),
    DestroyNode(),
    DeleteDisk(),
    Look(),
    Grant(),
)
FLOWS: dict[str, Flow] = {flow.name: flow for flow in _ALL}
