"""A file's header is gguf-py's, but for the vocabulary."""

import gguf
import numpy
import pytest
from learner.gguf_header import MANY, HeaderReader


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(2)
    writer.add_array("tokenizer.ggml.tokens", [f"word{number}" for number in range(MANY)])
    writer.add_array("qwen2.attention.head_count_kv", [2, 0])
    writer.add_array("tokenizer.ggml.token_type", [1] * MANY)
    writer.add_chat_template("{{ messages }}")
    writer.add_tensor("output_norm.weight", numpy.arange(4, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_all_but_long_arrays_is_read(file):
    ours, theirs = HeaderReader(file), gguf.GGUFReader(file)
    long = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"}
    assert {name: field.contents() for name, field in ours.fields.items()} == {
        name: [] if name in long else field.contents() for name, field in theirs.fields.items()
    }
    (mine,), (its,) = ours.tensors, theirs.tensors
    assert mine.name == its.name and mine.data_offset == its.data_offset and mine.data.tolist() == [0, 1, 2, 3]


def test_a_file_that_ends_within_its_vocabulary_is_an_error_as_any_other(file):
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b"word77")])
    with pytest.raises(ValueError, match="ends within its metadata"):
        HeaderReader(file)
