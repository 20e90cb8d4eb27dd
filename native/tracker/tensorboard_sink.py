"""Writes TensorBoard's event files with its own library; TensorFlow is not needed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto

from tracker.sink import Opened

"""Rows of a step's table: Markdown of more is slow to draw."""
MOST_ROWS = 16


def cell(value: object) -> str:
    """Escapes untrusted text for a Markdown table, including HTML."""
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    for char, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("`", "&#96;"), ("\\", "&#92;")):
        text = text.replace(char, name)
    return text.replace("\r", "").replace("\n", "<br>")


def table(columns: list[str], rows: list[list[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class TensorBoardSink:
    def open(self, about: dict[str, Any], kept: dict[str, Any], last: int) -> Opened:
        folder = Path(about["folder"]) / "tensorboard"
        self._writer = EventFileWriter(str(folder))
        if last >= 0:
            # TensorBoard ignores the events that a killed process wrote after this step.
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=time.time(), step=last + 1, session_log=start))
        else:
            config = about["config"]
            self._text("config", 0, table(["option", "value"], [[name, config[name]] for name in sorted(config)]))
            simple = {
                name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
                for name, value in config.items()
                if value is not None
            }
            self._summary(0, hparams.hparams_pb(simple, trial_id=about["run"]))
        self._writer.flush()
        return Opened(where=f"tensorboard --logdir {folder}")

    def row(self, step: int, values: dict[str, float], rollouts: dict[str, Any] | None) -> None:
        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._summary(step, Summary(value=scalars))
        if rollouts is not None:
            self._text("rollouts", step, table(rollouts["columns"], rollouts["rows"][:MOST_ROWS]))
        self._writer.flush()

    def adapter(self, about: dict[str, Any]) -> None:
        self._text("adapter", about["step"], f"{', '.join(about['aliases'])}: {cell(about['folder'])}")

    def close(self, whole: bool) -> None:
        self._writer.close()

    def _summary(self, step: int, summary: Summary) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def _text(self, tag: str, step: int, text: str) -> None:
        metadata = text_metadata.create_summary_metadata(display_name=tag, description="")
        tensor = make_tensor_proto([text.encode()])
        self._summary(step, Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=tensor)]))
