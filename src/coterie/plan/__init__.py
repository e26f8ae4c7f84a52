"""From specs and a ledger snapshot to changes. Pure: a function of manifest, snapshot and facts; it does no I/O."""
