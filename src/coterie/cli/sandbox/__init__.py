"""`coterie sandbox`: the simulated datacenter, shown and shaped. Nothing here asks the Director."""

from coterie.cli.sandbox import calls, fault, operator, quota, serve, shape, show
from coterie.cli.sandbox.noun import sandbox

__all__ = ["calls", "fault", "operator", "quota", "sandbox", "serve", "shape", "show"]
