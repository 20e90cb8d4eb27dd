"""Writes the trained model: a Hugging Face folder, and one GGUF file with tokenizer and chat template inside."""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from .model import TinyModel
from .tokenizer import special_tokens

TEMPLATE = Path(__file__).parents[1] / "chat_template.jinja"
END_OF_TEXT, END_OF_TURN = "<|endoftext|>", "<|im_end|>"
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def half_precision(model: TinyModel) -> dict[str, torch.Tensor]:
    """Weights by Hugging Face's names; all in f16, which is what ships."""
    return {name: value.to(torch.float16).contiguous() for name, value in model.state_dict().items()}


def save_hugging_face(model: TinyModel, tokenizer: Tokenizer, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shape, token = model.shape, tokenizer.token_to_id
    save_file(half_precision(model), folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "intermediate_size": shape.feed_forward,
        "hidden_act": "silu",
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_epsilon,
        "rope_theta": shape.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "eos_token_id": token(END_OF_TURN),
        "pad_token_id": token(END_OF_TEXT),
        "dtype": "float16",
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "unk_token": None,
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "model_max_length": shape.context,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE.read_text(encoding="utf-8"),
    }
    generation = {"do_sample": True, "eos_token_id": token(END_OF_TURN), "pad_token_id": token(END_OF_TEXT)}
    for name, value in (
        ("config.json", config),
        ("tokenizer_config.json", tokenizer_config),
        ("generation_config.json", generation),
    ):
        (folder / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(str(folder / "tokenizer.json"))


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    model = json.loads(tokenizer.to_str())["model"]
    special = special_tokens()
    types = dict.fromkeys(special["control"], gguf.TokenType.CONTROL)
    types |= dict.fromkeys(special["text"], gguf.TokenType.USER_DEFINED)
    tokens = [tokenizer.id_to_token(index) for index in range(tokenizer.get_vocab_size())]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([types.get(token, gguf.TokenType.NORMAL) for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_eos_token_id(tokenizer.token_to_id(END_OF_TURN))
    writer.add_pad_token_id(tokenizer.token_to_id(END_OF_TEXT))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE.read_text(encoding="utf-8"))


def _tensor_name(name: str) -> str:
    """llama.cpp's name of a Qwen2 tensor."""
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, *path, kind = name.split(".")
    return f"blk.{layer}.{LAYER_NAMES['.'.join(path)]}.{kind}"


def save_gguf(model: TinyModel, tokenizer: Tokenizer, file: Path) -> None:
    """As llama.cpp's converter with `--outtype f16`: matrices in f16, vectors in f32."""
    shape = model.shape
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_name("hone tiny")
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    writer.add_vocab_size(shape.vocabulary)
    _add_tokenizer(writer, tokenizer)
    for name, value in half_precision(model).items():
        data = value.numpy()
        writer.add_tensor(_tensor_name(name), data if data.ndim > 1 else data.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
