"""Loads the base model: from the engine's GGUF file, or from a Hugging Face folder of the same model."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import gguf
import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from . import attention, convolution
from .architectures import ARCHITECTURES, MODEL_TYPES, MULTIPLIERS, last_norm
from .errors import Refused
from .gguf_model import GgufModel, Unreadable, config_class, read_gguf
from .protocol import Progress
from .quantised import QuantisedEmbedding, QuantisedLinear, is_kept

SAME_MODEL_TOLERANCE = {"f32": 0.01, "f16": 0.01, "bf16": 0.01, "q8_0": 0.02}
"""Tolerance between a folder and the file made from it: RMS of the difference over RMS of the weights."""
OTHER_TOLERANCES = ((4, 0.2), (0, 1.0))
"""For other types: (bits per weight above which it holds, tolerance). Measured: q4_0 differs by 0.09, q3_k by 0.15,
q2_k by 0.3, tq1_0 by 0.84; another model's weights by 1.4. The mismatch shows if they are close enough."""


Place = Callable[[str, torch.Tensor], torch.Tensor]
"""(name of a parameter, its values in f32 on the CPU) → the same on the device and in the type of its later use."""


def as_read(_: str, values: torch.Tensor) -> torch.Tensor:
    return values


def load_base(
    gguf_path: str,
    hf_folder: str | None,
    progress: Progress,
    place: Place = as_read,
    opened: Callable[[GgufModel], None] = lambda file: None,
    blocks: bool = False,
) -> tuple[PreTrainedModel, GgufModel]:
    """The model with packed attention. Raises Refused with the reason when it cannot be trained.

    Each tensor of a GGUF file is placed as soon as it is read: only one of them is held in f32 in addition. A
    folder is loaded in f32 on the CPU. `opened` is called with the file before any tensor is placed. `blocks`: the
    file's quantised matrices stay so.
    """
    attention.register()
    progress("reading the model file", 0, 0)
    file = read_gguf(gguf_path)
    opened(file)
    model = _from_folder(hf_folder, file) if hf_folder else _from_gguf(file, progress, place, blocks)
    convolution.pack(model)
    return model, file


def empty_model(config) -> PreTrainedModel:
    """A model without memory for its weights: initialising weights that are overwritten would take longer than reading
    them."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, attn_implementation=attention.NAME, dtype=torch.float32)


def _from_gguf(file: GgufModel, progress: Progress, place: Place, blocks: bool) -> PreTrainedModel:
    model = empty_model(file.config)
    wanted = {name for name, _ in model.named_parameters(remove_duplicate=True)}
    check_whole(wanted, file)
    state: dict[str, torch.Tensor] = {}
    for done, name in enumerate(sorted(wanted)):
        found, expected = file.tensors[name], model.get_parameter(name).shape
        shape = file.shape(name)
        if shape != expected:
            raise Refused(f"{file.path}: {name} has the shape {list(shape)}, not {list(expected)}")
        if blocks and is_kept(found.tensor_type):
            state[name] = _keep_blocks(model, name, found.tensor_type, place(name, file.blocks(name)))
        else:
            state[name] = place(name, file.tensor(name))
        progress("loading", done + 1, len(wanted))
    model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    _tie_blocks(model)
    place_rope(model, file)
    return model


def _keep_blocks(
    model: PreTrainedModel, name: str, kind: gguf.GGMLQuantizationType, blocks: torch.Tensor
) -> torch.Tensor:
    """Puts a layer of quantised.py in the place of a matrix's layer. Returns the blocks."""
    path = name.removesuffix(".weight")
    layer = model.get_submodule(path)
    if isinstance(layer, torch.nn.Embedding):
        scale = getattr(layer, "scalar_embed_scale", None)
        model.set_submodule(path, QuantisedEmbedding(blocks, kind, layer.padding_idx, scale))
    else:
        model.set_submodule(path, QuantisedLinear(blocks, kind, layer.bias))
    return blocks


def _tie_blocks(model: PreTrainedModel) -> None:
    """An output layer that is the table of embeddings."""
    table = model.get_input_embeddings()
    if isinstance(table, QuantisedEmbedding) and model.config.tie_word_embeddings:
        model.set_output_embeddings(QuantisedLinear(table.weight, table.kind, None))
        model.get_output_embeddings().weight = table.weight


def check_whole(wanted: set[str], file: GgufModel) -> None:
    """Raises Refused unless the file has exactly the expected parameters."""
    missing, extra = sorted(wanted - set(file.tensors)), sorted(set(file.tensors) - wanted)
    if missing or extra:
        problem = f"lacks {missing[0]}" if missing else f"has {extra[0]}, which {file.architecture} models have not"
        raise Refused(f"{file.path} {problem}: it is not a whole {file.architecture} model")


def place_rope(model: PreTrainedModel, file: GgufModel) -> None:
    """Buffers are not in the file: RoPE's frequencies are recomputed, and divided as in llama.cpp."""
    embeddings = model.model.embed_tokens
    if hasattr(embeddings, "scalar_embed_scale"):
        embeddings.embed_scale = torch.tensor(embeddings.scalar_embed_scale)
    rotary = type(model.model.rotary_emb)(config=model.config)
    if file.rope_factors is not None:
        rotary.inv_freq = rotary.inv_freq / file.rope_factors
        rotary.original_inv_freq = rotary.inv_freq.clone()
    model.model.rotary_emb = rotary


def _from_folder(folder: str, file: GgufModel) -> PreTrainedModel:
    if not Path(folder, "config.json").is_file():
        raise Refused(f"{folder} is no Hugging Face model folder: it has no config.json")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if config.model_type not in MODEL_TYPES:
            raise Refused(f"{folder} holds a {config.model_type} model; the learner trains {', '.join(MODEL_TYPES)}")
        _refuse_quantised(config, folder)
        config = _as_played(config, folder)
        # The engine has no dropout: with it the learner's log-probabilities would belong to another policy.
        for dropout in ("attention_dropout", "resid_pdrop", "embd_pdrop"):
            if hasattr(config, dropout):
                setattr(config, dropout, 0.0)
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            dtype=torch.float32,
            attn_implementation=attention.NAME,
        )
    except (OSError, ValueError, json.JSONDecodeError, SafetensorError) as error:
        raise Refused(f"{folder} cannot be loaded: {str(error).splitlines()[0]}") from error
    _check_same(model, file, folder)
    return model


def _as_played(config: PretrainedConfig, folder: str) -> PretrainedConfig:
    """The configuration of the class that computes the file's architecture: Llama's for a model of Mistral's, whose
    tensors have the same names. Raises Refused where that would be another computation.
    """
    rotated = ARCHITECTURES[MODEL_TYPES[config.model_type]].rotated_layers(config.num_hidden_layers)
    if getattr(config, "no_rope_layers", None) != rotated:
        raise Refused(f"{folder} has RoPE in other layers than the engine applies it to")
    window = getattr(config, "sliding_window", None)
    if window is not None and not ARCHITECTURES[MODEL_TYPES[config.model_type]].windows:
        if window < config.max_position_embeddings:
            raise Refused(f"{folder} attends through a sliding window of {window} tokens, which the learner does not")
        config.sliding_window = None
    kind = config_class(MODEL_TYPES[config.model_type])
    if isinstance(config, kind):
        return config
    own = ("model_type", "architectures", "sliding_window")
    return kind.from_dict({key: value for key, value in config.to_dict().items() if key not in own})


def _refuse_quantised(config: PretrainedConfig, folder: str) -> None:
    """With 4-bit weights of another kind than the engine's file, policy and learner would be two models."""
    quantisation = getattr(config, "quantization_config", None)
    if quantisation is None:
        return
    kind = dict(quantisation).get("quant_method", "unknown") if isinstance(quantisation, dict) else quantisation
    raise Refused(
        f"{folder} has quantised weights ({kind}), which are not those that the engine plays.\n"
        "Give a folder with 16-bit weights, or convert the dequantised weights to the GGUF file that is trained and "
        "leave --hf-weights out"
    )


def _check_same(model: PreTrainedModel, file: GgufModel, folder: str) -> None:
    """Refuses a folder that the engine's file was not made from: compares shapes, then a sample of weights."""
    for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"):
        ours, theirs = getattr(model.config, key), getattr(file.config, key)
        if ours != theirs:
            raise Refused(f"{folder} is not the model of {file.path}: {key} is {ours} there and {theirs} in the file")
    about = ARCHITECTURES[file.architecture]
    windowed = ("sliding_window", "layer_types", "query_pre_attn_scalar", "hidden_activation") if about.windows else ()
    for key in (*windowed, *(("layer_types", "conv_L_cache", "conv_bias") if about.convolves else ())):
        ours, theirs = getattr(model.config, key, None), getattr(file.config, key, None)
        if ours != theirs:
            raise Refused(f"{folder} is not the model of {file.path}: {key} is {ours} there and {theirs} in the file")
    for key in MULTIPLIERS:
        ours, theirs = getattr(model.config, key, 1.0), getattr(file.config, key, 1.0)
        # The file has it in f32.
        if not math.isclose(ours, theirs, rel_tol=1e-6):
            raise Refused(
                f"{folder} is not the model of {file.path}: {key} is {ours} there and {theirs:.6g} in the file"
            )
    last = model.config.num_hidden_layers - 1
    linears = [f"model.layers.0.{linear}.weight" for linear in about.linears]
    parameters = dict(model.named_parameters())
    for name in (
        next(name for name, one in parameters.items() if one is last_norm(model.model).weight),
        next(name for name in linears if name in parameters),
        f"model.layers.{last}.{about.linears[-1]}.weight",
    ):
        try:
            ours, theirs = model.get_parameter(name).detach(), file.tensor(name)
        except Unreadable:
            continue
        difference = ((ours - theirs).square().mean() / theirs.square().mean().clamp(min=1e-12)).sqrt().item()
        if difference > _tolerance(file.tensors[name].tensor_type):
            raise Refused(
                f"{folder} is not the model of {file.path}: {name} differs by {difference:.1%}; "
                "give the folder that the file was made from"
            )


def _tolerance(kind: gguf.GGMLQuantizationType) -> float:
    known = SAME_MODEL_TOLERANCE.get(kind.name.lower())
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    return known or next(tolerance for bits, tolerance in OTHER_TOLERANCES if 8 * size / weights > bits)
