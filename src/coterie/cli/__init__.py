"""The command line: one verb per file. It uses only the HTTP API, and imports what a verb needs when it is used."""
