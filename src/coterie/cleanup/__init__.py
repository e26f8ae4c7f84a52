"""Doubts reality: compares what a cloud holds with what the ledger knows. Positive proof, or keep."""
