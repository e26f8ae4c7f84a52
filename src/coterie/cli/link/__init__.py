"""The way to the Director: HTTP over TCP or a unix socket, problems, event streams, and the local Director's start."""
