"""Records to Weights & Biases with its own library. Stays offline, without any request, unless the user has enabled
it: with WANDB_MODE, or with a key (WANDB_API_KEY, `wandb login`). WANDB_PROJECT, WANDB_ENTITY, WANDB_BASE_URL and the
other variables have their usual meaning."""

from __future__ import annotations

import os
import secrets
import shlex
import traceback
from pathlib import Path
from typing import Any

# Set before the library is imported. Its output goes to a log, and its error reports are not sent.
os.environ.setdefault("WANDB_SILENT", "true")
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")

import wandb

from tracker.sink import Opened


def mode_of(environment: dict[str, str]) -> str:
    """The mode that the user has set; a key may be in the environment, or in the file of `wandb login`."""
    asked = environment.get("WANDB_MODE")
    if asked:
        return asked
    return "online" if wandb.login(prompt=False, verify=False) else "offline"


class WandbSink:
    def open(self, about: dict[str, Any], kept: dict[str, Any], last: int) -> Opened:
        folder = Path(about["folder"])
        # Artifacts are staged here, not in the user's home, so that the offline run and its files stay together.
        os.environ.setdefault("WANDB_DATA_DIR", str(folder / "wandb-data"))
        os.environ.setdefault("WANDB_CACHE_DIR", str(folder / "wandb-cache"))
        mode = mode_of(dict(os.environ))
        identity = kept.get("id") or secrets.token_hex(4)
        note = None
        try:
            self._run = self._init(about, identity, mode)
        except Exception as error:
            if mode != "online":
                raise
            # The server is down, or refuses the key: the recorded data can be sent later.
            note = f"W&B could not be reached ({' '.join(str(error).split())[:200]}); it is recorded offline"
            wandb.teardown()
            mode = "offline"
            self._run = self._init(about, identity, mode)
        self._name = f"{about['run']}-adapter"
        where = self._run.url or ""
        if mode == "offline":
            # Each process that goes on with the run has a folder of its own; those that were uploaded are left out.
            folders = Path(self._run.dir).parent.parent
            where = f"offline; to upload it: wandb sync {shlex.quote(str(folders))}/offline-run-*-{identity}"
        elif mode == "disabled":
            where = "disabled by WANDB_MODE"
        return Opened(where=where, note=note, recorded=mode != "disabled", kept={"id": identity})

    def _init(self, about: dict[str, Any], identity: str, mode: str) -> Any:
        return wandb.init(
            project=os.environ.get("WANDB_PROJECT") or about["project"],
            name=os.environ.get("WANDB_NAME") or about["run"],
            id=identity,
            resume="allow",
            dir=os.environ.get("WANDB_DIR") or about["folder"],
            mode=mode,
            config=about["config"],
            settings=wandb.Settings(
                console="off",
                # The current folder does not contain the training code.
                disable_git=True,
                disable_code=True,
                # System metrics would need another process; hone's metrics include memory and time.
                x_disable_stats=True,
                init_timeout=float(os.environ.get("WANDB_INIT_TIMEOUT", "20")),
            ),
        )

    def row(self, step: int, values: dict[str, float], rollouts: dict[str, Any] | None) -> None:
        if rollouts is not None:
            table = wandb.Table(columns=rollouts["columns"], data=rollouts["rows"])
            try:
                self._run.log({"rollouts": table}, step=step, commit=False)
            except Exception:
                # A table is an artifact, which needs a request to the server first: it may fail where curves do not.
                traceback.print_exc()
        self._run.log(dict(values), step=step, commit=True)

    def adapter(self, about: dict[str, Any]) -> None:
        artifact = wandb.Artifact(self._name, type="model", metadata={"step": about["step"]})
        artifact.add_dir(about["folder"], name="adapter")
        artifact.add_file(about["file"], name="adapter.gguf")
        self._run.log_artifact(artifact, aliases=about["aliases"])

    def close(self, whole: bool) -> None:
        # A non-zero exit code marks the run as interrupted in W&B; it can be resumed.
        self._run.finish(exit_code=0 if whole else 1)
