"""A small real tokenizer: byte-level BPE, trained on llama.cpp's own documentation, with the pre-tokenizer, the special
tokens and the chat template of the model family it stands for."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY_SIZE = 1024

# The published patterns of the two families: Qwen splits numbers into digits, Llama 3 into groups of three.
PATTERN = {
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}
CONTROL = {
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "llama-bpe": [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|finetune_right_pad_id|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
    ],
}
# Mistral Nemo's, in their order; it has no token for padding but this one.
MISTRAL_CONTROL = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "<pad>",
]
# SmolLM3's vocabulary is Llama 3's with ChatML's roles.
SMOLLM3_CONTROL = ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>", "<|finetune_right_pad_id|>"]
GRANITE_CONTROL = ["<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>", "<|pad|>"]
OWN_CONTROL = {
    "mistral": MISTRAL_CONTROL,
    "smollm3": SMOLLM3_CONTROL,
    "granite": GRANITE_CONTROL,
    "olmo2": ["<|endoftext|>", "<|pad|>"],
    # llama.cpp demands the first three of a model that is called phi3.
    "phi3": ["<unk>", "<s>", "</s>", "<|endoftext|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"],
    "lfm2": [
        "<|pad|>",
        "<|startoftext|>",
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|tool_list_start|>",
        "<|tool_list_end|>",
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        "<|tool_response_start|>",
        "<|tool_response_end|>",
    ],
    "gemma3": ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"],
}
# Tokens of their own that are text nevertheless, as in Qwen2.5 and Qwen3.
WHOLE = {"qwen2": ["<tool_call>", "</tool_call>"], "llama-bpe": []}
TEMPLATE = {
    "qwen2": "Qwen-Qwen2.5-7B-Instruct.jinja",
    "qwen3": "Qwen-Qwen3-0.6B.jinja",
    "llama": "meta-llama-Llama-3.2-3B-Instruct.jinja",
    "mistral": "mistralai-Mistral-Nemo-Instruct-2407.jinja",
    "smollm3": "HuggingFaceTB-SmolLM3-3B.jinja",
    "granite": "ibm-granite-granite-3.3-2B-Instruct.jinja",
    "phi3": "microsoft-Phi-3.5-mini-instruct.jinja",
    # Also that of the models without experts.
    "lfm2": "LFM2-8B-A1B.jinja",
}

# Of those that llama.cpp's source does not have, what the published ones make of a text.
OWN_TEMPLATE = {"olmo2": "olmo-2.jinja", "gemma3": "gemma-3.jinja"}

QWEN_ROLES = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
ROLES = {
    "qwen2": QWEN_ROLES,
    "qwen3": QWEN_ROLES,
    "llama": {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|eot_id|>",
        "pad_token": "<|finetune_right_pad_id|>",
    },
    "mistral": {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
    "granite": {"eos_token": "<|end_of_text|>", "pad_token": "<|pad|>"},
    "olmo2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|pad|>"},
    "phi3": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    "gemma3": {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"},
    "lfm2": {"bos_token": "<|startoftext|>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>"},
    "smollm3": {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|finetune_right_pad_id|>",
    },
}


def own_template(family: str) -> str:
    return (Path(__file__).parent / "templates" / OWN_TEMPLATE[family]).read_text(encoding="utf-8")


def corpus(source: Path) -> list[str]:
    """Text to learn merges from. `source` is llama.cpp's source."""
    files = [source / "README.md", *sorted(source.glob("docs/*.md")), *sorted(source.glob("models/templates/*.jinja"))]
    return [file.read_text(encoding="utf-8") for file in files]


def train(pre: str, texts: list[str], control: list[str]) -> Tokenizer:
    """Ids: bytes and merges first, then control tokens, then whole ones, as the real vocabularies have them."""
    special = control + WHOLE[pre]
    tokenizer = Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN[pre]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE - len(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in WHOLE[pre]])
    if pre == "llama-bpe":
        bos = ("<s>", "<|startoftext|>", "<|begin_of_text|>")
        tokenizer.post_processor = begin_with(next(one for one in bos if one in control), tokenizer)
    return tokenizer


def begin_with(bos: str, tokenizer: Tokenizer) -> processors.Sequence:
    """Puts a token before every text, as Llama's tokenizers do."""
    return processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{bos} $A",
                pair=f"{bos} $A {bos}:1 $B:1",
                special_tokens=[(bos, tokenizer.token_to_id(bos))],
            ),
        ]
    )


def make(family: str, pre: str, source: Path, context: int) -> PreTrainedTokenizerFast:
    """The Hugging Face tokenizer of a family of TEMPLATE or OWN_TEMPLATE with pre-tokenizer `pre`."""
    tokenizer = train(pre, corpus(source), OWN_CONTROL.get(family, CONTROL[pre]))
    roles = ROLES[family]
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=context, **roles)
    published = source / "models" / "templates"
    own = family in OWN_TEMPLATE
    fast.chat_template = own_template(family) if own else (published / TEMPLATE[family]).read_text(encoding="utf-8")
    return fast
