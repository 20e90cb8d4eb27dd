"""Makes the package importable when pytest runs without hone, and gives every test a small model."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]


@pytest.fixture
def silent():
    return lambda phase, done, total: None
