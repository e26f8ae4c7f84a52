"""Compares what a cloud holds with what the ledger has. An object is deleted on positive proof only."""
