"""Durable work: flows made of short steps, run under a lease, committed together. No SQL, no vendor's word."""
