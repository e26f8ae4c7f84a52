"""Agent settings over HTTP, for stemcells that still need a registry. Reads the ledger, calls no cloud."""
