"""What several tests share."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

# Before PyTorch is imported: for models this small a second thread costs more than it brings, and where cores are busy
# threads that wait for each other all but stand still.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of the tiny test models (test/models/make.py says what is in it)."""
    script = ROOT / "dist" / "bench" / "make-models.js"
    if not script.exists():
        pytest.fail("build first (yarn build): the test models are made by dist/bench/make-models.js")
    made = subprocess.run(["node", str(script), "tiny"], capture_output=True, text=True, cwd=ROOT)
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


@pytest.fixture
def silent():
    """A listener to progress that has better things to do."""
    return lambda phase, done, total: None


@pytest.fixture
def qwen2(tmp_path: Path) -> Path:
    """A small model's file."""
    from models import make_model, write_gguf

    return write_gguf(make_model("qwen2"), tmp_path / "model.gguf")


@pytest.fixture
def peft(qwen2: Path, silent):
    """A backend on it."""
    from batches import open_settings
    from learner.backend import PeftBackend

    return PeftBackend(open_settings(qwen2), silent)


@pytest.fixture
def without_bf16(monkeypatch):
    """A card of Turing."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)


def leaks(backend, change):
    """The backend with hidden states as `change` makes them, of (pack, states)."""
    computed = backend.computed
    backend.computed = lambda pack: change(pack, computed(pack))
    return backend
