"""Steps of a survey and of a sweep, and the table that names them."""

from coterie.cleanup.flows.delete import DeleteObject
from coterie.cleanup.flows.retire import RetireDisk
from coterie.cleanup.flows.settle import CloseIntent, ReclaimObject
from coterie.cleanup.survey import Survey
from coterie.engine.flow import Flow

_ALL: tuple[Flow, ...] = (Survey(), DeleteObject(), RetireDisk(), CloseIntent(), ReclaimObject())
FLOWS: dict[str, Flow] = {flow.name: flow for flow in _ALL}
