"""The local ledger of `coterie-cpi`, and the driver calls that it records."""
