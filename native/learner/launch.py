"""Starts the learner's ranks by a command such as torchrun, and joins them to hone: `python -m learner.launch COMMAND`.

    hone ── fd 3, 4 ── this process ── the command ── ranks
                            └───────── a socket ────────┘

The module of the learner and its Python are appended to the command, which sets RANK and WORLD_SIZE for each process
that it starts. Every rank connects here, over loopback. What hone requests goes to all of them, in the same order; hone
gets the reports of rank 0. A rank that ends or falls silent ends all: what a rank has said on stderr is in the log by
then. When hone closes its end, all ranks are ended.

Imports no PyTorch, so that it greets hone at once and needs no memory.
"""

import contextlib
import json
import os
import platform
import secrets
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from .launched import ADDRESS, LOOPBACK, machine
from .lifeline import guard
from .protocol import BEAT_SECONDS, CONTROL_FD, REPORT_FD, VERSION

START_SECONDS = 120.0
"""Until all ranks are there."""
BEAT_LIMIT = 60.0
"""Without any message of a rank, which sends one each second."""
CULPRIT_SECONDS = 2.0
"""After a rank has lost the others, until the one that ended is known."""
END_SECONDS = 5.0
"""For ranks that were killed to be gone; and for hone's end, before the guardian ends this process."""
LOOK_SECONDS = BEAT_SECONDS / 4
LATE_SECONDS = 1.0
"""Delay of a look from which on the time before it does not count: this process itself was stopped or had no core, and
has not read meanwhile what the ranks have said."""
READ_BYTES = 65536
HELLO_BYTES = 4096
"""Of what a stranger may say before it is sent away."""


@dataclass
class _Member:
    """A process that connected."""

    connection: socket.socket
    heard: float
    """By the launch's clock."""
    text: bytes = b""
    """Of a line that has not ended."""
    rank: int | None = None
    """None until it has introduced itself."""
    pid: int | None = None
    """Where it is a process of this machine."""
    watch: int | None = None
    """A descriptor that becomes readable when the process ends."""


class AwakeClock:
    """Seconds in which this process was able to run, as src/core/util/time-limit.ts counts them. Looked at often."""

    def __init__(self) -> None:
        self._counted, self._looked = 0.0, time.monotonic()

    def now(self) -> float:
        now = time.monotonic()
        passed = now - self._looked
        self._looked = now
        self._counted += LOOK_SECONDS if passed > LOOK_SECONDS + LATE_SECONDS else passed
        return self._counted


class _Refusal(Exception):
    """The command cannot be used: one line for the user."""


class _End(Exception):
    """Everything ends, with this exit code and with these words as the last line of the log. Without words the last
    line is that of the command."""

    def __init__(self, words: str, code: int = 1) -> None:
        super().__init__(words)
        self.code = code


def command_of(text: str, python: str) -> list[str]:
    """The words of the launcher with those of the learner. Raises _Refusal."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise _Refusal(f"it cannot be read as a command ({error})") from error
    if not words:
        raise _Refusal("it is empty; name a launcher, as torchrun --nproc-per-node 2")
    if words[0] == "torchrun":
        # By its module: the script names its Python by a path that is wrong once the environment was moved or copied.
        program = [python, "-m", "torch.distributed.run"]
    else:
        found = shutil.which(words[0], path=_path(python))
        if found is None:
            raise _Refusal(f"there is no program {words[0]}; install it, or give its path")
        program = [found]
    torchrun = "torch.distributed.run" in words or any(os.path.basename(word) == "torchrun" for word in words)
    # Without it torchrun takes what follows for a script of its own Python.
    plain = ["--no-python"] if torchrun and not {"--no-python", "--no_python"} & set(words) else []
    return [*program, *words[1:], *plain, python, "-m", "learner"]


def _path(python: str) -> str:
    """Programs of the learner's own Python come first."""
    return os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", os.defpath)])


def _listen() -> socket.socket:
    """On a free port. Raises _Refusal."""
    try:
        return socket.create_server((LOOPBACK, 0), backlog=64)
    except OSError as error:
        raise _Refusal(f"hone cannot listen on {LOOPBACK} ({error.strerror or error})") from error


class Launch:
    """One run of the command. `run` returns the exit code of this process."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._selector = selectors.DefaultSelector()
        self._members: list[_Member] = []
        self._world: int | None = None
        self._secret = secrets.token_hex(16)
        self._requests: list[bytes] = []
        """Lines of hone that wait for the ranks."""
        self._control = b""
        self._answered: set[int] = set()
        self._refusal: str | None = None
        self._command: subprocess.Popen[bytes] | None = None
        self._lost: tuple[float, str] | None = None
        """When and how a rank lost the others."""
        self._clock = AwakeClock()

    def run(self) -> int:
        self._send({"type": "hello", "version": VERSION, "pid": os.getpid(), "python": platform.python_version()})
        os.set_inheritable(CONTROL_FD, False)
        os.set_inheritable(REPORT_FD, False)
        self._selector.register(CONTROL_FD, selectors.EVENT_READ, self._read_control)
        try:
            listener = _listen()
            self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))
            self._start(listener.getsockname()[1])
        except _Refusal as error:
            self._refuse(str(error))
        try:
            self._serve()
        except _End as end:
            self._kill()
            # Nothing comes after it in the log: all others are gone.
            if str(end):
                print(f"learner: {end}", file=sys.stderr, flush=True)
            return end.code
        except BaseException:
            self._kill()
            raise

    def _start(self, port: int) -> None:
        command = command_of(self._text, sys.executable)
        environment = os.environ | {ADDRESS: f"{LOOPBACK} {port} {self._secret}", "PATH": _path(sys.executable)}
        with _listen() as free:
            meeting = free.getsockname()[1]
        # Where the ranks find each other, unless the launcher says it. torchrun would leave a folder for logs behind.
        environment |= {"MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(meeting), "PET_LOG_DIR": os.devnull}
        try:
            self._command = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise _Refusal(f"{command[0]} cannot be run ({error.strerror})") from error

    def _refuse(self, why: str) -> None:
        self._refusal = f'--learner-launch "{self._text}": {why}'
        for line in self._requests:
            self._answer_refused(line)
        self._requests.clear()

    def _answer_refused(self, line: bytes) -> None:
        number = json.loads(line).get("id")
        self._send({"type": "error", "id": number, "code": "refused", "message": self._refusal})

    def _serve(self) -> NoReturn:
        started = beat = self._clock.now()
        while True:
            for key, _ in self._selector.select(LOOK_SECONDS):
                key.data()
            now = self._clock.now()
            if now - beat >= BEAT_SECONDS and not self._complete():
                self._send({"type": "beat"})
                beat = now
            if self._refusal is None:
                self._look(now, started)

    def _look(self, now: float, started: float) -> None:
        """Raises _End where a rank, or the command, is not as it should be."""
        assert self._command is not None
        code = self._command.poll()
        if self._lost and now - self._lost[0] > CULPRIT_SECONDS:
            raise _End(self._lost[1])
        if code is not None and not self._lost:
            # What it does not understand it says by itself; ended by a signal it has said nothing.
            raise _End("", code) if code > 0 and not self._complete() else _End(f"{self._text} ended with code {code}")
        if not self._complete() and now - started > START_SECONDS:
            there = sum(one.rank is not None for one in self._members)
            raise _End(f"{there} of {self._world or 'its'} ranks started within {START_SECONDS:g} seconds")
        for one in list(self._members):
            if now - one.heard > BEAT_LIMIT:
                if one.rank is None:
                    self._forget(one)
                    continue
                raise _End(f"{self._name(one)} gave no sign of life for {BEAT_LIMIT:g} seconds")

    def _complete(self) -> bool:
        return self._world is not None and sum(one.rank is not None for one in self._members) == self._world

    def _name(self, one: _Member) -> str:
        return f"rank {one.rank} of {self._world}"

    def _read_control(self) -> None:
        data = os.read(CONTROL_FD, READ_BYTES)
        if not data:
            raise _End("", 0)
        *lines, self._control = (self._control + data).split(b"\n")
        for line in lines:
            if self._refusal is not None:
                self._answer_refused(line)
            else:
                self._requests.append(line)
        self._pass_on()

    def _pass_on(self) -> None:
        """Requests to the ranks, once all are there."""
        if not self._complete():
            return
        for line in self._requests:
            for one in self._members:
                with contextlib.suppress(OSError):  # its end is noticed by itself
                    one.connection.sendall(line + b"\n")
        self._requests.clear()

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            # It has gone already.
            return
        one = _Member(connection, self._clock.now())
        self._members.append(one)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(one))

    def _read(self, one: _Member) -> None:
        try:
            data = one.connection.recv(READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._gone(one)
            return
        one.heard = self._clock.now()
        *lines, one.text = (one.text + data).split(b"\n")
        if one.rank is None and len(one.text) > HELLO_BYTES:
            self._forget(one)
            return
        for line in lines:
            if one not in self._members:
                return
            if one.rank is None:
                self._introduce(one, line)
            else:
                self._report(one, line)

    def _introduce(self, one: _Member, line: bytes) -> None:
        said = _object(line)
        if not secrets.compare_digest(str(said.get("secret")), self._secret):
            self._forget(one)
            return
        if "refused" in said:
            self._forget(one)
            self._refuse(f"{said['refused']}; give a command that sets RANK and WORLD_SIZE, as torchrun does")
            return
        one.rank, self._world = said["rank"], said["world"]
        one.pid = said["pid"] if said["machine"] == machine() else None
        if sum(other.rank == one.rank for other in self._members) > 1:
            self._refuse(f"two of its processes have RANK {one.rank}")
            return
        if one.pid is not None and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                one.watch = os.pidfd_open(one.pid)
                self._selector.register(one.watch, selectors.EVENT_READ, lambda: self._gone(one))
        self._pass_on()

    def _report(self, one: _Member, line: bytes) -> None:
        """Of rank 0 to hone. Of another one that it makes progress, for which rank 0 may wait; and an error where rank
        0 has not answered: it cannot compute."""
        said = _object(line)
        kind, number = said.get("type"), said.get("id")
        if kind == "hello":
            return
        if kind == "lost":
            self._lost = self._lost or (self._clock.now(), f"{self._name(one)}: {said.get('message')}")
            return
        if kind == "progress" and one.rank != 0:
            self._send({"type": "beat", "progress": True})
            return
        answers = kind in ("done", "error")
        if (answers and number in self._answered) or (one.rank != 0 and kind != "error"):
            return
        if answers:
            self._answered.add(number)
        self._write(line + b"\n")

    def _gone(self, one: _Member) -> None:
        if one.rank is None:
            self._forget(one)
        elif self._refusal is None:
            raise _End(f"{self._name(one)} ended")

    def _forget(self, one: _Member) -> None:
        self._selector.unregister(one.connection)
        one.connection.close()
        self._members.remove(one)

    def _send(self, message: dict[str, Any]) -> None:
        self._write((json.dumps(message) + "\n").encode())

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(REPORT_FD, data) :]
        except OSError as error:
            raise _End("", 0) from error

    def _kill(self) -> None:
        """Ends the command and all ranks; returns when they are gone. Each rank's guardian sees the end of its socket,
        too, and ends what it has started."""
        if self._command is not None:
            self._command.kill()
        for one in self._members:
            with contextlib.suppress(OSError):
                if one.pid is not None:
                    leads = os.getpgid(one.pid) == one.pid
                    (os.killpg if leads else os.kill)(one.pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                one.connection.shutdown(socket.SHUT_WR)
        until = time.monotonic() + END_SECONDS
        for one in self._members:
            with contextlib.suppress(OSError):
                while (left := until - time.monotonic()) > 0:
                    one.connection.settimeout(left)
                    if not one.connection.recv(READ_BYTES):
                        break
        if self._command is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._command.wait(END_SECONDS)


def _object(line: bytes) -> dict[str, Any]:
    """Empty for what is no object of JSON."""
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def main() -> None:
    guard(CONTROL_FD, grace=END_SECONDS)
    sys.exit(Launch(sys.argv[1]).run())


if __name__ == "__main__":
    main()
