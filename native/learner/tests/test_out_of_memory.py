"""After a lack of memory nothing is held any more when the next, smaller try begins."""

import gc
import weakref

import learner.__main__ as program
import pytest
import torch
from batches import open_settings, step_settings, write_random_batch
from learner import checkpoint
from learner.errors import Refused, is_out_of_memory
from learner.memory import forget, give_back
from learner.optimizer import Optimizer
from learner.session import Session

from models import make_model, write_gguf


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a capacity of 7.79 GiB"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_a_lack_of_memory_is_known_in_all_its_words(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasSgemm(...)`"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        ValueError("no"),
    ],
)
def test_other_errors_are_none(error):
    assert not is_out_of_memory(error)


@pytest.fixture
def without_collector():
    gc.disable()
    yield
    gc.enable()


def failing(refs):
    """Fails as deep in an update, with a tensor in each of two frames, one of them behind another error."""

    def deep():
        held = torch.ones(10)
        refs.append(weakref.ref(held))
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED")

    kept = torch.ones(10)
    refs.append(weakref.ref(kept))
    try:
        deep()
    except RuntimeError as error:
        raise torch.OutOfMemoryError("CUDA out of memory") from error


def test_a_forgotten_error_keeps_no_tensor(without_collector):
    refs = []
    with pytest.raises(torch.OutOfMemoryError) as caught:
        failing(refs)
    assert all(ref() is not None for ref in refs), "a traceback keeps them"
    forget(caught.value)
    assert [ref() for ref in refs] == [None, None]


def test_an_update_goes_back_only_when_its_activations_are_gone(tmp_path, silent, monkeypatch, without_collector):
    session = Session(open_settings(write_gguf(make_model("qwen2"), tmp_path / "model.gguf")), silent)
    batch = write_random_batch(tmp_path / "batch.safetensors")
    refs, alive = [], []
    restore = Optimizer.restore

    def noting(self, snapshot):
        alive.append([ref() is not None for ref in refs])
        restore(self, snapshot)

    monkeypatch.setattr(Optimizer, "restore", noting)
    with pytest.raises(torch.OutOfMemoryError):
        # After the first row: before it nothing is there to go back from.
        session.step(step_settings(batch, tmp_path / "0001"), lambda _, done, __: done and failing(refs))
    assert alive == [[False, False]]


@pytest.mark.parametrize("failure", [MemoryError(), Refused("is the disk full?")], ids=["memory", "disk"])
def test_a_step_whose_checkpoint_could_not_be_written_is_made_again_from_the_same_state(
    tmp_path, silent, monkeypatch, failure
):
    def refuse(*_):
        raise failure

    model = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    batch = write_random_batch(tmp_path / "batch.safetensors")

    def adapter_of(into, failures):
        session = Session(open_settings(model), silent)
        for _ in range(failures):
            with monkeypatch.context() as patched, pytest.raises(type(failure)):
                patched.setattr(checkpoint, "write", refuse)
                session.step(step_settings(batch, tmp_path / "lost"), silent)
        session.step(step_settings(batch, into), silent)
        return (into / "adapter.gguf").read_bytes()

    assert adapter_of(tmp_path / "after failures", 2) == adapter_of(tmp_path / "at once", 0)


class Conversation:
    """The requests of one conversation, and what was answered."""

    def __init__(self, kinds, on_send=lambda message: None):
        self.kinds, self.sent, self.on_send = kinds, [], on_send

    def start(self):
        pass

    def requests(self):
        return [{"id": number, "type": kind} for number, kind in enumerate(self.kinds)]

    def send(self, message):
        self.on_send(message)
        self.sent.append(message)


def converse(monkeypatch, kinds, answer, on_send=lambda message: None):
    conversation = Conversation(kinds, on_send)
    monkeypatch.setattr(program.protocol, "Connection", lambda: conversation)
    monkeypatch.setattr(program, "guard", lambda descriptor, half: None)
    monkeypatch.setattr(program, "answer", answer)
    program.main()
    return conversation.sent


def test_memory_is_given_back_before_the_failure_is_told(monkeypatch, without_collector):
    refs, happened = [], []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "empty_cache", lambda: happened.append(("emptied", [ref() is None for ref in refs]))
    )
    (sent,) = converse(
        monkeypatch, ["step"], lambda *_: failing(refs), lambda message: happened.append((message["type"], None))
    )
    assert happened == [("emptied", [True, True]), ("error", None)]
    assert sent["code"] == "memory" and "--micro-batch-tokens" in sent["message"]


def test_a_model_that_does_not_fit_when_it_is_loaded_is_one_line_with_advice_of_its_own(monkeypatch):
    (sent,) = converse(monkeypatch, ["open"], lambda *_: failing([]))
    assert sent["code"] == "memory"
    assert sent["message"].startswith("the learner's model does not fit into memory; take a smaller model")
    assert "\n" not in sent["message"] and "--micro-batch-tokens" not in sent["message"]


def test_a_refusal_stays_one(monkeypatch):
    def refuse(*_):
        raise Refused("no room")

    (sent,) = converse(monkeypatch, ["step"], refuse)
    assert (sent["code"], sent["message"]) == ("refused", "no room")


def test_on_a_gpu_all_that_pytorch_keeps_is_given_back(monkeypatch):
    happened = []
    monkeypatch.setattr(gc, "collect", lambda: happened.append("collected"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: happened.append("emptied"))
    give_back(torch.device("cpu"))
    assert happened == []
    give_back(torch.device("cuda"))
    assert happened == ["collected", "emptied"]
