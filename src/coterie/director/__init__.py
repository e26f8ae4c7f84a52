"""The Director: the REST API, and the process that serves it. SQL stays in the ledger.

This file imports nothing: the command line uses `process.state_folder` without importing a server.
"""
