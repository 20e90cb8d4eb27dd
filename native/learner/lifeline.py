"""Ends the learner with hone, whatever becomes of hone and whatever the learner is doing.

A thread that reads the control pipe would do for an idle process, but it waits for the interpreter's lock while a
library holds it, and a signal from the kernel ends this process without its compile workers. So a guardian does it: a
small process, forked before anything large is loaded, that waits for the other end of the control pipe to close and
then kills the whole group, itself with it.
"""

import os
import select
import signal
import sys
import time


def end_group() -> None:
    """Ends this process at once, with all that it started. Outside a group of its own it ends alone."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def die_with_parent() -> None:
    """Asks Linux to kill this process when the one that started it dies."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def guard(control_fd: int, grace: float = 0.0) -> None:
    """Call once, before threads are started. Returns in the learner; the guardian stays in here until the end.

    With a `grace` the process sees the end of its control pipe itself and has so many seconds to end in its own way.
    """
    learner = os.getpid()
    leads = os.getpgrp() == learner
    if os.fork() > 0:
        if grace == 0:
            die_with_parent()
        return
    # Nobody's requests are read here: only the end of the other side is waited for.
    poll = select.poll()
    poll.register(control_fd, 0)
    # A learner that dies alone is seen by hone, which ends the group; but hone may be gone by then.
    while not poll.poll(1000) and os.getppid() == learner:
        pass
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and os.getppid() == learner:
        time.sleep(0.1)
    if leads:
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
