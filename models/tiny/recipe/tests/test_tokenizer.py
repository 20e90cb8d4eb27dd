import pytest
from tokenizers import Tokenizer

from ..tokenizer import always_whole, special_tokens
from .sample import NAMES, SYMBOLS


@pytest.mark.parametrize("before", ["", ">", "(", '"', " ", "Hi ", ' "'])
def test_a_name_is_the_same_one_token_whatever_stands_before_it(tokenizer: Tokenizer, before: str) -> None:
    for name in always_whole(NAMES, SYMBOLS):
        assert tokenizer.encode(before + name).tokens[-1] == name


def test_a_frequent_word_that_is_no_name_takes_its_space_along(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode(" lead").tokens == ["Ġlead"]


def test_any_text_comes_back_as_it_was(tokenizer: Tokenizer) -> None:
    text = "Zoë paid 1,250 € — «naïve»\n\n\t<b>\u0000</b> 東京 🙂"
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_special_tokens_are_one_token_each_and_end_the_vocabulary(tokenizer: Tokenizer) -> None:
    special = [token for tokens in special_tokens().values() for token in tokens]
    ids = [tokenizer.encode(f"a{token}b").ids[1] for token in special]
    assert ids == list(range(tokenizer.get_vocab_size() - len(special), tokenizer.get_vocab_size()))
