"""The step engine: flows made of short labels, run under a lease, committed together. No SQL, no vendor's word."""
