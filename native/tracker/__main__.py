"""One tracker's process: takes rows of a run from its control pipe (file descriptor 3), hands them to the tracker's own
library, and says what it has recorded (file descriptor 4). One JSON object a line, both ways.

It is no part of training: whatever happens here, hone goes on without it. It ends with hone, within GRACE seconds.

Hears  open    {folder, run, project, created, config, steps}   once, at first
       row     {step, values, rollouts?: {columns, rows}}       in order of the step
       adapter {step, folder, file, aliases}                    at the end
       end     {}
Says   ready   {last, where, note?}   `last` is the step up to which an earlier process has recorded this very run
       done    {step}                 recorded
       kept    {}                     the adapter is
       ended   {where}
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from learner.lifeline import guard

from tracker.sink import Sink

CONTROL, REPORT = 3, 4
"""Seconds that a tracker has to bring its files in order once hone is gone."""
GRACE = 8.0


def sink_of(name: str) -> Sink:
    # Imported here: each library takes seconds, and only one is needed.
    if name == "tensorboard":
        from tracker.tensorboard_sink import TensorBoardSink

        return TensorBoardSink()
    from tracker.wandb_sink import WandbSink

    return WandbSink()


class State:
    """What an earlier process has recorded of the run: a small file beside the tracker's own."""

    def __init__(self, file: Path, created: str) -> None:
        self._file = file
        known = json.loads(file.read_text()) if file.exists() else {}
        # A run that was begun anew is another one.
        self.values: dict[str, Any] = known if known.get("created") == created else {"created": created}

    def keep(self, **values: object) -> None:
        self.values |= values
        aside = self._file.with_suffix(".part")
        aside.write_text(json.dumps(self.values))
        aside.replace(self._file)


def alone(folder: Path, name: str) -> TextIO:
    """Waits until the tracker of a process that was killed has ended; two would write into each other's files."""
    lock = (folder / f"{name}.lock").open("w")
    deadline = time.monotonic() + 3 * GRACE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"another process records this run in {name}") from None
            time.sleep(0.2)


def serve(name: str, control: TextIO, report: TextIO) -> None:
    def say(kind: str, **values: object) -> None:
        # Where hone is gone nobody reads it.
        try:
            report.write(json.dumps({"type": kind, **values}) + "\n")
            report.flush()
        except BrokenPipeError:
            pass

    about = json.loads(control.readline())
    folder = Path(about["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    lock = alone(folder, name)
    state = State(folder / f"{name}.json", about["created"])
    sink = sink_of(name)
    last = state.values.get("last", -1)
    opened = sink.open(about, state.values, last)
    state.keep(**opened.kept)
    say("ready", last=last, where=opened.where, note=opened.note)
    whole = False
    for line in control:
        message = json.loads(line)
        if message["type"] == "row":
            sink.row(message["step"], message["values"], message.get("rollouts"))
            last = max(last, message["step"])
            if opened.recorded:
                state.keep(last=last)
            say("done", step=message["step"])
        elif message["type"] == "adapter":
            sink.adapter(message)
            say("kept")
        elif message["type"] == "end":
            whole = True
            break
    sink.close(whole)
    say("ended", where=opened.where)
    lock.close()


def main() -> None:
    # Ctrl-C is for hone, which says how it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    guard(CONTROL, grace=GRACE)
    # Training goes first.
    os.nice(10)
    with os.fdopen(CONTROL, encoding="utf8") as control, os.fdopen(REPORT, "w", encoding="utf8") as report:
        serve(sys.argv[1], control, report)


if __name__ == "__main__":
    main()
