"""Writing to a stdout that is no pipe."""

import os
import select
import signal
import threading

from wicket_mcp.surface.stdio import _FileSink  # pyright: ignore[reportPrivateUsage]


def test_b24_a_write_that_was_cut_short_is_continued() -> None:
    """B24: a signal ends a blocked write early; what was left of the message used to be dropped."""
    source, target = os.pipe()
    message = os.urandom(1024 * 1024)
    received: list[bytes] = []
    interrupted = threading.Event()
    writer = threading.get_ident()

    def read() -> None:
        while select.select([], [target], [], 0)[1]:  # until the pipe is full, so that the writer is blocked
            pass
        signal.pthread_kill(writer, signal.SIGUSR1)
        interrupted.wait()
        while chunk := os.read(source, 65536):
            received.append(chunk)

    def wake_reader(number: int, frame: object) -> None:
        interrupted.set()

    before = signal.signal(signal.SIGUSR1, wake_reader)
    reader = threading.Thread(target=read)
    try:
        reader.start()
        sink = _FileSink(target)
        sink.write(message)
        sink.close()
        reader.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(source)
    assert b"".join(received) == message
