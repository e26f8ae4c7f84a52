"""Agent settings over HTTP, for stemcells that still need a registry. It knows the ledger, and no cloud."""
