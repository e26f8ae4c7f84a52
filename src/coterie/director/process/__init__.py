"""The process that serves the API: sockets, state folder, start and end."""
