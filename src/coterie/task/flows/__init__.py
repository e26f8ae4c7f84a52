"""One workflow per file, and the table that names them."""

from coterie.task.flow import Flow
from coterie.task.flows.disk import DeleteDisk
from coterie.task.flows.enrolled import DestroyNode
from coterie.task.flows.grant import Grant
from coterie.task.flows.group import CreateGroup, DeleteGroup, RepairGroup, UpdateGroup
from coterie.task.flows.look import Look
from coterie.task.flows.node import CreateNode, DeleteNode, RecreateNode, UpdateNode
from coterie.task.flows.reclaim import ReclaimNode
from coterie.task.flows.stemcell import DeleteStemcell, UploadStemcell

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
