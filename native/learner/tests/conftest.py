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
