"""The Director: the REST API, and the life of the process that serves it. SQL stays in the ledger.

This file imports nothing: the command line reads `home` and `lock` from here without paying for a server.
"""
