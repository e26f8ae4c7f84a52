"""`coterie demo`."""

from coterie.cli.demo.verb import demo

__all__ = ["demo"]
