"""What the learner says of the device that it computes on. The test runs without one: what answers is made up."""

import torch
from batches import open_settings, step_settings, write_random_batch
from learner.hardware import cuda_of, name_of
from learner.session import Session

from models import make_model, write_gguf

CUDA = torch.device("cuda")


def test_a_device_is_named_as_it_computes(monkeypatch):
    assert name_of(torch.device("cpu")) == "cpu" and cuda_of(torch.device("cpu")) is None

    class Nvml:
        def nvmlInit_v2(self):
            return 0

        def nvmlSystemGetDriverVersion(self, text, length):
            assert length == 80
            text.value = b"580.95.05"
            return 0

        def nvmlShutdown(self):
            return 0

    monkeypatch.setattr("ctypes.CDLL", lambda name: Nvml())
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    assert name_of(CUDA) == "NVIDIA H100 80GB HBM3"
    assert cuda_of(CUDA) == {"version": "13.0", "driver": "580.95.05"}

    def none(name):
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", none)
    assert cuda_of(CUDA) == {"version": "13.0", "driver": None}


def test_a_session_and_its_updates_say_where_the_parameters_are(tmp_path, silent):
    base = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    session = Session(open_settings(base), silent)
    assert session.info["device"] == session._backend.placed().type == "cpu"
    assert session.info["cuda"] is None and session.info["offloaded"] is False
    assert Session(open_settings(base, lifetime="step"), silent).info["offloaded"] is False
    batch = write_random_batch(tmp_path / "batch.safetensors")
    metrics = session.step(step_settings(batch, tmp_path / "0001"), silent)
    assert (metrics["device"], metrics["precision"]) == ("cpu", "f32")
