"""This process as one of several ranks that a launcher has started (launch.py). Known before PyTorch is imported."""

import contextlib
import fcntl
import json
import os
import socket
import sys
from dataclasses import dataclass

ADDRESS = "HONE_LEARNER_RANKS"
"""Variable in which launch.py tells its ranks where it listens, an address and a port, and a secret."""
LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Rank:
    number: int
    """From 0; rank 0 answers hone and writes checkpoints."""
    world: int
    """Number of ranks."""
    local: int
    """Its number among the ranks of this machine: the card that it computes on."""
    local_world: int
    launched: bool = True

    @property
    def first(self) -> bool:
        return self.number == 0


ALONE = Rank(0, 1, 0, 1, launched=False)


class Unlaunched(Exception):
    """The launcher has not said which rank this process is. One line."""


def rank_of(environment: dict[str, str]) -> Rank:
    """As PyTorch's launcher sets it; a launcher that names no machines has all ranks on one. Raises Unlaunched."""
    try:
        number, world = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        local = int(environment.get("LOCAL_RANK", number))
        local_world = int(environment.get("LOCAL_WORLD_SIZE", world))
    except KeyError as error:
        raise Unlaunched(f"it starts the learner without the variable {error.args[0]}") from error
    except ValueError as error:
        raise Unlaunched(f"it sets a rank or a number of ranks that is no number ({error})") from error
    if not 0 <= number < world:
        raise Unlaunched(f"it sets RANK to {number} and WORLD_SIZE to {world}")
    return Rank(number, world, local, local_world)


def machine() -> str:
    """The same for processes whose process ids are of one list: those of another machine, or of another container, mean
    nothing here."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id") as boot:
            parts.append(boot.read().strip())
        parts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return " ".join(parts)


def enter(control_fd: int, report_fd: int) -> Rank:
    """Connects these file descriptors to the launching process, which has hone's ends. Outside of a launch nothing is
    done and the rank is ALONE. Ends the process where it cannot take part."""
    address = os.environ.pop(ADDRESS, None)
    if address is None:
        return ALONE
    host, port, secret = address.split()
    try:
        connection = socket.create_connection((host, int(port)), CONNECT_SECONDS)
    except OSError as error:
        here = socket.gethostname()
        sys.exit(f"a rank of the learner on {here} cannot reach hone ({error}): all ranks must be on its machine")
    connection.settimeout(None)
    hello: dict[str, object] = {"secret": secret, "pid": os.getpid(), "machine": machine()}
    try:
        rank = rank_of(dict(os.environ))
        hello |= {"rank": rank.number, "world": rank.world}
    except Unlaunched as error:
        connection.sendall((json.dumps(hello | {"refused": str(error)}) + "\n").encode())
        sys.exit(str(error))
    connection.sendall((json.dumps(hello) + "\n").encode())
    # The socket itself may be one of the two.
    descriptor = connection.detach()
    aside = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    for fd in (control_fd, report_fd):
        os.dup2(aside, fd)
    os.close(aside)
    return rank
