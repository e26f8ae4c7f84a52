"""Steps of a survey and of a sweep, and the table that names them."""

from coterie.cleanup.flows.delete import DELETE_OBJECT, RETIRE_DISK
from coterie.cleanup.flows.settle import CLOSE_INTENT, RECLAIM_OBJECT
from coterie.cleanup.survey import SURVEY
from coterie.engine.flow import by_name

FLOWS = by_name(SURVEY, DELETE_OBJECT, RETIRE_DISK, CLOSE_INTENT, RECLAIM_OBJECT)
