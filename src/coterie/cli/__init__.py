"""The command line: one verb per file. It speaks only the HTTP API, and imports what a verb needs when it is used."""
