"""The child's side of the conversation with hone; src/learn/protocol.ts, the other side, says what the messages are.

Lines of JSON: requests on file descriptor 3, reports on 4. stdout and stderr belong to the log.
"""

import json
import os
import platform
import queue
import threading
from collections.abc import Callable
from typing import Any

from .lifeline import end_group

VERSION = 1
CONTROL_FD = 3
REPORT_FD = 4
BEAT_SECONDS = 1.0

Progress = Callable[[str, int, int], None]


class Connection:
    """Reports to hone, and the requests that come from it. Any thread may report."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: queue.Queue[dict[str, Any]] = queue.Queue()
        for fd in (CONTROL_FD, REPORT_FD):
            # Compile workers must not hold them open.
            os.set_inheritable(fd, False)
            os.set_blocking(fd, True)

    def start(self) -> None:
        """Greets, and starts the threads that read and beat."""
        version = platform.python_version()
        self.send({"type": "hello", "version": VERSION, "pid": os.getpid(), "python": version})
        threading.Thread(target=self._read, name="lifeline", daemon=True).start()
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Writes one message. When nobody reads any more there is nobody to work for."""
        # NaN is not JSON: whoever measures it says None.
        line = (json.dumps(message, allow_nan=False) + "\n").encode()
        with self._lock:
            try:
                while line:
                    line = line[os.write(REPORT_FD, line) :]
            except OSError:
                end_group()

    def requests(self):
        """Yields requests for ever: the end of the control pipe ends the process."""
        while True:
            yield self._requests.get()

    def _read(self) -> None:
        with os.fdopen(CONTROL_FD, "rb", closefd=False) as control:
            for line in control:
                try:
                    message = json.loads(line)
                    if not isinstance(message, dict) or not isinstance(message.get("id"), int):
                        raise ValueError("a request is an object with an id")
                except ValueError as error:
                    self.send({"type": "error", "id": None, "code": "protocol", "message": str(error)})
                    continue
                self._requests.put(message)
        # hone closed the pipe, or died: whatever this process is doing is of no use to anybody.
        end_group()

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT_SECONDS):
            self.send({"type": "beat"})
