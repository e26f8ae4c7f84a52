"""From wish and memory to changes. Pure: a function of manifest, ledger snapshot and facts; it does no I/O."""
