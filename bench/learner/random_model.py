"""The random model that all sides of the bench rows learner/… train, and other types of its weights."""

import multiprocessing
import sys
import tempfile
from pathlib import Path


def make_model(shape, held_by=None):
    """`held_by`: a type of 16 bits that holds all weights exactly, as those of a model loaded from a file of it."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    torch.manual_seed(0)
    config = Qwen2Config(**shape, tie_word_embeddings=True, max_position_embeddings=4096)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    if held_by is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.to(held_by))
    return model


def write_file(shape, kind, path):
    """make_model as a GGUF file with matrices of this type."""
    sys.path.append(str(Path(__file__).parents[2] / "native/learner/tests"))
    from models import write_gguf

    model = make_model(shape)
    model.config.head_dim = shape["hidden_size"] // shape["num_attention_heads"]
    write_gguf(model, path, kind)


def write_folder(shape, path, held_by):
    make_model(shape, held_by).save_pretrained(path)


def elsewhere(function, *args):
    """Calls it in a process of its own: the memory that it takes is not the learner's."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=args)
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{function.__name__} ended with {process.exitcode}")


def open_file(shape, kind, lora, device):
    """The learner as hone opens it, on a file with matrices of this type."""
    from learner.backend import PeftBackend
    from learner.request import OpenRequest, read

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.gguf")
        elsewhere(write_file, shape, kind, file)
        base = {"backend": "peft", "base": {"gguf": str(file)}, "lora": lora, "seed": 0, "threads": 1}
        settings = read(OpenRequest, base | {"device": device.type, "precision": "auto"})
        return PeftBackend(settings, lambda *_: None)


def in_nf4(shape, held_by):
    """make_model with the weights of its layers in 4 bits, as transformers reads a folder with bitsandbytes."""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    dtype = held_by or torch.float32
    four = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    with tempfile.TemporaryDirectory() as folder:
        elsewhere(write_folder, shape, folder, held_by)
        return AutoModelForCausalLM.from_pretrained(folder, quantization_config=four, dtype=dtype)
