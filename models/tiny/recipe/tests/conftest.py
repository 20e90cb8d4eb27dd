import pytest
import torch
from tokenizers import Tokenizer

from ..tokenizer import train_tokenizer
from .sample import NAMES, SYMBOLS, conversation

# The models here are too small for two threads, and two wait for each other on a busy machine.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A small one, trained on the made-up conversation."""
    return train_tokenizer(["".join(text for text, _ in conversation())] * 40, NAMES, SYMBOLS)
