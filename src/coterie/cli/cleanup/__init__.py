"""`coterie cleanup`: find what was left behind, look at the plan, apply it, undo what can be undone."""

from coterie.cli.cleanup.noun import cleanup

__all__ = ["cleanup"]
