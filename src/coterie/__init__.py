"""Coterie deploys groups of machines on any IaaS, keeps them where promised, and leaves nothing behind."""

__version__ = "0.1.0"
