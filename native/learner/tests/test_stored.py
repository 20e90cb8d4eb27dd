"""A checkpoint's tensors are read as the libraries read them that write them."""

import json

import gguf
import numpy
import pytest
import torch
from learner.errors import Refused
from learner.stored import of_gguf, of_pickle, of_safetensors
from safetensors.torch import load_file, save_file


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_safetensors(tmp_path):
    path = tmp_path / "adapter_model.safetensors"
    save_file({"one.a": numbers(8, 3), "one.b": numbers(2, 8, seed=1), "two": numbers(5)}, path, {"format": "pt"})
    found, wanted = of_safetensors(path), load_file(path)
    assert found.keys() == wanted.keys()
    assert all(numpy.array_equal(found[name], one.numpy()) for name, one in wanted.items())
    save_file({"one.a": numbers(8, 3).half()}, path)
    with pytest.raises(Refused, match=r"has one\.a in another type than f32"):
        of_safetensors(path)


def write_gguf(path, kind=numpy.float32):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, 16.0)
    writer.add_tensor("one.a", numbers(8, 3).numpy().astype(kind))
    writer.add_tensor("one.b", numbers(5, 8, seed=1).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf(tmp_path):
    path = tmp_path / "adapter.gguf"
    write_gguf(path)
    (reader, found), wanted = of_gguf(path), gguf.GGUFReader(path)
    assert reader.fields[gguf.Keys.Adapter.LORA_ALPHA].contents() == 16.0
    assert list(found) == [one.name for one in wanted.tensors]
    assert all(numpy.array_equal(found[one.name], one.data) for one in wanted.tensors)
    write_gguf(path, numpy.float16)
    with pytest.raises(Refused, match=r"has one\.a in another type than f32"):
        of_gguf(path)


def test_a_state_of_tensors_that_share_a_buffer_or_have_their_own(tmp_path):
    path = tmp_path / "optimizer.pt"
    first, second, third = numbers(30).split([12, 17, 1])
    moments = {"shared": first.view(3, 4), "next": second, "count": third.view(()), "turned": numbers(4, 3).T}
    state = {"moments": moments, "updates": 3, "random": torch.get_rng_state(), "betas": (0.9, 0.999), "none": None}
    torch.save(state, path)
    found = of_pickle(path)
    assert found["moments"].keys() == moments.keys()
    for name, one in moments.items():
        stored = found["moments"][name]
        assert (stored.shape, stored.dtype) == (one.shape, numpy.float32) and numpy.array_equal(stored, one.numpy())
    assert numpy.array_equal(found["random"], state["random"].numpy())
    assert (found["updates"], found["betas"], found["none"]) == (3, (0.9, 0.999), None)


def test_what_hone_does_not_write_there_is_refused_and_not_run(tmp_path):
    path = tmp_path / "optimizer.pt"
    for other, name in ((numbers(2).half(), "torch.HalfStorage"), (json.loads, "json.loads")):
        torch.save({"moments": other}, path)
        with pytest.raises(Refused, match=rf"has {name}, which hone does not write"):
            of_pickle(path)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("read", [of_safetensors, of_gguf, of_pickle])
def test_a_file_that_is_not_whole_is_refused(tmp_path, read, share):
    path = tmp_path / "file"
    if read is of_gguf:
        write_gguf(path)
    elif read is of_pickle:
        torch.save({"moments": numbers(300)}, path)
    else:
        save_file({"one.a": numbers(300)}, path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(Refused, match="file of the checkpoint has not what was written to it"):
        read(path)
