"""The core process: configuration, drivers and the local ledger, kept open behind a unix socket."""
