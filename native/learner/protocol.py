"""The learner's side of the protocol with hone; src/core/learn/protocol.ts, the other side, describes the messages.

Lines of JSON: requests on file descriptor 3, reports on 4. stdout and stderr belong to the log.
"""

import json
import os
import platform
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from .lifeline import end_group

VERSION = 1
CONTROL_FD = 3
REPORT_FD = 4
BEAT_SECONDS = 1.0

Progress = Callable[[str, int, int], None]
"""(what is done, how much of it, of how much; 0, 0: that cannot be told)"""


class Telling:
    """A request's progress, which can be told again: within a row, which takes longer than hone waits for a sign where
    a CPU is slow or busy."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._told = ("", 0, 0)
        self._at = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        self._told, self._at = (phase, done, total), time.monotonic()
        self._progress(phase, done, total)

    def again(self) -> None:
        """As often as heartbeats at most; nothing before something was told."""
        if self._told[0] and time.monotonic() - self._at >= BEAT_SECONDS:
            self(*self._told)


class Connection:
    """Sends reports to hone and receives its requests. Any thread may report."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: queue.Queue[dict[str, Any]] = queue.Queue()
        for fd in (CONTROL_FD, REPORT_FD):
            # Compile workers must not hold them open.
            os.set_inheritable(fd, False)
            os.set_blocking(fd, True)

    def start(self) -> None:
        """Sends the greeting, and starts the threads for reading and heartbeats."""
        version = platform.python_version()
        self.send({"type": "hello", "version": VERSION, "pid": os.getpid(), "python": version})
        threading.Thread(target=self._read, name="lifeline", daemon=True).start()
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Writes one message. Ends the process when hone no longer reads."""
        # NaN is not JSON: callers convert it to None.
        line = (json.dumps(message, allow_nan=False) + "\n").encode()
        with self._lock:
            try:
                while line:
                    line = line[os.write(REPORT_FD, line) :]
            except OSError:
                end_group()

    def requests(self):
        """Yields requests without end: the end of the control pipe ends the process."""
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
        # hone closed the pipe, or died: the current work is of no use any more.
        end_group()

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT_SECONDS):
            self.send({"type": "beat"})
