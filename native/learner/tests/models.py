"""Small random models of each architecture, as Hugging Face folders and as GGUF files, for the tests."""

from pathlib import Path

import gguf
import numpy
import torch
from learner.architectures import (
    ARCHITECTURES,
    KERNEL,
    LAYER_TENSORS,
    MODEL_TENSORS,
    MODEL_TYPES,
    MULTIPLIERS,
    is_interleaved,
    offset_of,
)
from learner.gguf_model import LONG_FACTORS, permute
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GraniteConfig,
    Lfm2Config,
    LlamaConfig,
    MistralConfig,
    Olmo2Config,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

CONFIGS = {
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "smollm3": SmolLM3Config,
    "granite": GraniteConfig,
    "olmo2": Olmo2Config,
    "gemma3": Gemma3TextConfig,
    "phi3": Phi3Config,
    "lfm2": Lfm2Config,
}
SHAPE = dict(
    vocab_size=96,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=512,
    rms_norm_eps=1e-6,
)


def make_model(architecture: str, tied: bool = True, seed: int = 0, **more) -> torch.nn.Module:
    torch.manual_seed(seed)
    # transformers' own would be a window of 4096 tokens.
    more = more | ({"sliding_window": None} if architecture == "mistral" else {})
    # The last layer has no RoPE. The class's padding token is not in this vocabulary.
    more = more | ({"num_hidden_layers": 4, "pad_token_id": None} if architecture == "smollm3" else {})
    more = more | ({"pad_token_id": None} if architecture in ("olmo2", "gemma3", "phi3", "lfm2") else {})
    if architecture == "granite":
        scales = {"embedding_multiplier": 3.0, "attention_multiplier": 0.25, "residual_multiplier": 0.375}
        more = scales | {"logits_scaling": 2.5} | more
    rope: dict = {"rope_type": "default", "rope_theta": 10000.0}
    if architecture == "gemma3":
        # The last of its layers has no window. The others' is shorter than most rollouts of the tests.
        more = {"num_hidden_layers": 6, "sliding_window": 11, "query_pre_attn_scalar": SHAPE["head_dim"]} | more
        rope = {"full_attention": rope | {"rope_theta": 1e6}, "sliding_attention": rope}
    if architecture == "phi3":
        # Three quarters of a head are rotated, by its short factors: no row of the tests is longer than 256.
        count = (SHAPE | more)["head_dim"] * 3 // 8
        factors = {
            "short_factor": [1 + 0.25 * one for one in range(count)],
            "long_factor": [4.0 + one for one in range(count)],
        }
        rope |= factors | {"rope_type": "longrope", "partial_rotary_factor": 0.75}
        rope["original_max_position_embeddings"] = 256
        more = {"original_max_position_embeddings": 256} | more
    if architecture == "lfm2":
        # A convolution reads more tokens than usual; the first and the last layer have one.
        layers = ["conv", "full_attention", "conv"]
        own = {"layer_types": layers, "num_hidden_layers": 3, "conv_L_cache": 4, "block_auto_adjust_ff_dim": False}
        more = own | {"norm_eps": SHAPE["rms_norm_eps"]} | more
    config = CONFIGS[architecture](**(SHAPE | more), tie_word_embeddings=tied, rope_parameters=rope)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Far enough from the usual 0.02 that attention and biases matter, and exact in f16.
            noise = torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 0.1)
            parameter.copy_(((parameter if "norm" in name else 0) + noise).half().float())
    return model.eval()


def write_gguf(
    model: torch.nn.Module,
    path: Path,
    kind: str = "F16",
    rope_factors: torch.Tensor | None = None,
    others: dict[str, str] | None = None,
) -> Path:
    """As llama.cpp's converter writes it: vectors f32, matrices `kind`, Llama's query and key rows interleaved.

    `others`: types of matrices by the ends of their names.
    """
    config = model.config
    architecture = MODEL_TYPES[config.model_type]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    about = ARCHITECTURES[architecture]
    width = next(len(one) for name, one in model.named_parameters() if name.endswith(f"{about.linears[-2]}.weight"))
    writer.add_feed_forward_length(width // 2 if about.fused else width)
    writer.add_head_count(config.num_attention_heads)
    if about.convolves:
        writer.add_head_count_kv([config.num_key_value_heads * (one != "conv") for one in config.layer_types])
        writer.add_shortconv_l_cache(config.conv_L_cache)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(getattr(config, about.epsilon))
    rope = config.rope_parameters
    if ARCHITECTURES[architecture].windows:
        writer.add_sliding_window(config.sliding_window)
        writer.add_float32(f"{architecture}.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
        rope = rope["full_attention"]
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(config.head_dim * rope.get("partial_rotary_factor", 1.0)))
    if rope["rope_type"] == "longrope":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_attn_factors(model.model.rotary_emb.attention_scaling)
        for name, ours in LONG_FACTORS.items():
            writer.add_tensor(name, numpy.array(rope[ours], numpy.float32))
    if ARCHITECTURES[architecture].multipliers:
        for ours, key in MULTIPLIERS.items():
            writer.add_float32(f"{architecture}.{key}", getattr(config, ours))
    writer.add_string("tokenizer.chat_template", "{{ messages }}")
    writer.add_array("tokenizer.ggml.tokens", [f"t{i}" for i in range(config.vocab_size)])
    back = {hf: name for name, hf in LAYER_TENSORS[architecture].items()}
    names = {hf: name for name, hf in MODEL_TENSORS.items()}
    for name, parameter in model.named_parameters():
        values = parameter.detach()
        if name not in names:
            _, _, layer, *module, last = name.split(".")
            names[name] = f"blk.{layer}.{back['.'.join(module)]}.{last}"
            if is_interleaved(architecture, name):
                heads = config.num_attention_heads if module[-1] == "q_proj" else config.num_key_value_heads
                values = permute(values, heads)
        values = values + offset_of(architecture, name)
        kernel = name.endswith(f"{KERNEL}.weight")
        values = values.squeeze(1) if kernel else values
        own = next((one for end, one in (others or {}).items() if name.endswith(f"{end}.weight")), kind)
        quantised = gguf.GGMLQuantizationType[own if values.dim() > 1 and not kernel else "F32"]
        writer.add_tensor(names[name], _encoded(values.numpy().astype(numpy.float32), quantised), raw_dtype=quantised)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.numpy().astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _encoded(values: numpy.ndarray, kind: gguf.GGMLQuantizationType) -> numpy.ndarray:
    """Random blocks of the right size where the gguf package cannot write the type; zeros where it has no scales."""
    try:
        return gguf.quantize(values, kind)
    except NotImplementedError:
        shape = gguf.quant_shape_to_byte_shape(values.shape, kind)
        return random_blocks(kind, shape) if kind in SCALES else numpy.zeros(shape, dtype=numpy.uint8)


SCALES = {
    gguf.GGMLQuantizationType.Q4_K: (0, 2),
    gguf.GGMLQuantizationType.Q5_K: (0, 2),
    gguf.GGMLQuantizationType.Q6_K: (208,),
    gguf.GGMLQuantizationType.Q2_K: (80, 82),
}
"""Where blocks have their f16 scales."""


def random_blocks(kind: gguf.GGMLQuantizationType, shape: tuple[int, ...]) -> numpy.ndarray:
    """Of all bits, with scales that make weights of at most 0.05."""
    generator = numpy.random.default_rng(kind.value)
    blocks = generator.integers(
        0, 256, (numpy.prod(shape) // gguf.GGML_QUANT_SIZES[kind][1], gguf.GGML_QUANT_SIZES[kind][1]), dtype=numpy.uint8
    )
    for at in SCALES[kind]:
        scales = generator.uniform(0.5, 1.0, (len(blocks), 1)) * 3e-5
        blocks[:, at : at + 2] = scales.astype(numpy.float16).view(numpy.uint8)
    return blocks.reshape(shape)
