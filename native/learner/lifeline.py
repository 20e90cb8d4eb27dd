"""Ends the learner when hone ends, in whatever state either of them is.

A thread that reads the control pipe would suffice for an idle process, but it waits for the interpreter's lock while a
library holds it, and a kernel signal ends this process without its compile workers. Therefore a guardian does it: a
small process, forked before anything large is loaded, that waits for the other end of the control pipe to close and
then kills the whole group, including itself.
"""

import os
import select
import signal
import sys
import time


def end_group() -> None:
    """Ends this process and all processes it started at once. Outside a group of its own it ends alone."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def die_with_parent() -> None:
    """Asks Linux to kill this process when its parent dies."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def guard(control_fd: int, grace: float = 0.0, half: bool = False) -> None:
    """Must be called once, before threads are started. Returns in the learner; the guardian stays in here until the
    end.

    With a `grace` the process itself notices the end of its control pipe and has this many seconds to end regularly.
    `half`: nothing more to read is the end, too; of a connection over the network the other side tells no more.
    """
    learner = os.getpid()
    leads = os.getpgrp() == learner
    if os.fork() > 0:
        if grace == 0:
            die_with_parent()
        return
    # No requests are read here: only the end of the other side is awaited.
    poll = select.poll()
    poll.register(control_fd, getattr(select, "POLLRDHUP", 0) if half else 0)
    # hone notices when only the learner dies, and ends the group; but hone may be gone by then.
    while not poll.poll(1000) and os.getppid() == learner:
        pass
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and os.getppid() == learner:
        time.sleep(0.1)
    if leads:
        os.killpg(0, signal.SIGKILL)
    elif os.getppid() == learner:
        # In a group of its launcher.
        os.kill(learner, signal.SIGKILL)
    os._exit(0)
