"""One tracker's process: reads rows of a run from its control pipe (file descriptor 3), passes them to the tracker's
own library, and acknowledges recorded ones (file descriptor 4). One JSON object per line, in both directions.

Training does not depend on it: after any failure here, hone goes on without it. It ends with hone, within GRACE
seconds.

Input   open    {folder, run, project, created, config, steps}   once, first
        row     {step, values, rollouts?: {columns, rows}}       in order of the step
        adapter {step, folder, file, aliases}                    at the end
        end     {}
Output  ready   {last, where, note?}   `last` is the last step of this run that an earlier process has recorded
        done    {step}                 the row is recorded
        kept    {}                     the adapter is recorded
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
    # Imported here, since each library takes seconds to load and only one is needed.
    if name == "tensorboard":
        from tracker.tensorboard_sink import TensorBoardSink

        return TensorBoardSink()
    if name == "wandb":
        from tracker.wandb_sink import WandbSink

        return WandbSink()
    raise ValueError(f"there is no tracker {name}")


class State:
    """The progress of earlier processes on this run, in a small file beside the tracker's own."""

    def __init__(self, file: Path, created: str) -> None:
        self._file = file
        known = json.loads(file.read_text()) if file.exists() else {}
        # A restarted run is another one.
        self.values: dict[str, Any] = known if known.get("created") == created else {"created": created}

    def keep(self, **values: object) -> None:
        self.values |= values
        aside = self._file.with_suffix(".part")
        aside.write_text(json.dumps(self.values))
        aside.replace(self._file)


def alone(folder: Path, name: str) -> TextIO:
    """Waits until the tracker of a killed process has ended, so that two do not write to the same files."""
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
        # hone has ended and no longer reads the pipe.
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
    # hone handles Ctrl-C and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    guard(CONTROL, grace=GRACE)
    # Training has priority.
    os.nice(10)
    with os.fdopen(CONTROL, encoding="utf8") as control, os.fdopen(REPORT, "w", encoding="utf8") as report:
        serve(sys.argv[1], control, report)


if __name__ == "__main__":
    main()
