"""The thin client of a CPI that is kept warm elsewhere on this machine. Argument: the port on 127.0.0.1."""

import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as core:
    core.sendall(sys.stdin.buffer.read())
    core.shutdown(socket.SHUT_WR)
    while data := core.recv(65536):
        sys.stdout.buffer.write(data)
