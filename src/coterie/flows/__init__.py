"""One workflow per file, and the table that names them."""

from coterie.engine.flow import by_name
from coterie.flows.disk import DELETE_DISK
from coterie.flows.enrolled import DESTROY_NODE
from coterie.flows.grant import GRANT
from coterie.flows.group import CREATE_GROUP, DELETE_GROUP, REPAIR_GROUP, UPDATE_GROUP
from coterie.flows.health import CHECK_HEALTH
from coterie.flows.look import LOOK
from coterie.flows.node import (
    ATTACH_DISK,
    CREATE_NODE,
    DELETE_NODE,
    RECLAIM_NODE,
    RECREATE_NODE,
    RESTART_NODE,
    STOP_NODE,
    UPDATE_NODE,
)
from coterie.flows.prove import PROVE
from coterie.flows.stemcell import DELETE_STEMCELL, UPLOAD_STEMCELL

FLOWS = by_name(
    UPLOAD_STEMCELL,
    DELETE_STEMCELL,
    CREATE_GROUP,
    UPDATE_GROUP,
    REPAIR_GROUP,
    DELETE_GROUP,
    CREATE_NODE,
    RECREATE_NODE,
    UPDATE_NODE,
    RESTART_NODE,
    STOP_NODE,
    ATTACH_DISK,
    DELETE_NODE,
    RECLAIM_NODE,
    DESTROY_NODE,
    DELETE_DISK,
    LOOK,
    CHECK_HEALTH,
    GRANT,
    PROVE,
)
