"""`coterie sandbox`: shows and changes the simulated datacenter. Nothing here calls the Director."""

from coterie.cli.sandbox import calls, fault, operator, quota, serve, shape, show
from coterie.cli.sandbox.noun import sandbox

__all__ = ["calls", "fault", "operator", "quota", "sandbox", "serve", "shape", "show"]
