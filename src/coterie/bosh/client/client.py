"""The thin client: hands a request to the core process and its answer back. It imports next to nothing, because a BOSH
Director starts it twice for every operation; `in_process` does what cannot be handed over."""

import sys
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket  # the plain module costs half a start of the interpreter

_CHUNK = 1 << 16
_GARBAGE = 50_000  # importing makes many objects that stay: to look through them again and again is dear
# Before an answer that goes back to the core: the caller has it.
DELIVERED = b"delivered\n"


def main(config: str, core: str | None, folders: tuple[str, ...] = ()) -> None:
    """Answer the one request on stdin. `folders` join sys.path only when this process must do the work itself."""
    request = sys.stdin.buffer.read()
    sent, answer = _send(core, request) if core else (False, b"")
    if core and _is_complete(answer):
        _write(answer)
        if b'"create_' in request or b'"snapshot_disk"' in request:
            _send(core, DELIVERED + answer)
        return
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    import gc

    from coterie.bosh.client.in_process import end_process, respond

    gc.set_threshold(_GARBAGE)
    respond(request, config, sent, _write)
    end_process()


def _write(answer: bytes) -> None:
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


def _send(core: str, request: bytes) -> tuple[bool, bytes]:
    """Whether the core may have begun to work on it, and what it answered."""
    link = socket(AF_UNIX, SOCK_STREAM)
    sent = False
    try:
        link.connect(core)
        sent = True
        link.sendall(request)
        link.shutdown(SHUT_WR)
        return True, _read(link)
    except OSError:
        return sent, b""
    finally:
        link.close()


def _read(link: socket) -> bytes:
    parts = []
    while part := link.recv(_CHUNK):
        parts.append(part)
    return b"".join(parts)


def _is_complete(answer: bytes) -> bool:
    # The core ends each answer with a line feed: without it the answer was cut off.
    return answer.endswith(b"}\n")
