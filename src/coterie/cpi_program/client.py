"""What launchers written by release 0.1.0 import. New ones import `coterie.bosh.client.client`."""

from coterie.bosh.client.client import main

__all__ = ["main"]
