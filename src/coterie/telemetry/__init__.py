"""Logs, meters and traces of a service. No noun of ours, no database and no HTTP route appears here."""
