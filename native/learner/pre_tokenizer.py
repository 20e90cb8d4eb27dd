"""Pre-tokenizers of byte-level BPE that hone writes and recognises: how a text is split before its bytes are merged."""

from typing import Any

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# By `tokenizer.ggml.pre`. The first two differ in the number of digits in one piece. SmolLM's splits off each digit
# before GPT-2's expression splits the rest, for which spaces before a digit are then the end of a text.
PATTERNS = {
    "qwen2": rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}",
    "llama-bpe": rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
    "smollm": r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+",
}


def ignores_merges(pre: str) -> bool:
    """Whether llama.cpp looks a piece up as a whole before it merges, by `tokenizer.ggml.pre`."""
    return pre == "llama-bpe"


def pre_tokenizer_of(definition: dict[str, Any]) -> str | None:
    """`tokenizer.ggml.pre` of a tokenizer.json; None if it splits or merges in none of the ways of PATTERNS."""
    model, pre = definition["model"], definition.get("pre_tokenizer") or {}
    # llama.cpp leaves out Qwen's normalisation (NFC), as its converter does for the published vocabularies.
    if (definition.get("normalizer") or {"type": "NFC"})["type"] != "NFC":
        return None
    steps = pre.get("pretokenizers", []) if pre.get("type") == "Sequence" else []
    if [step["type"] for step in steps] != ["Split", "ByteLevel"]:
        return None
    split, of_bytes = steps
    if split["behavior"] != "Isolated" or split["invert"] or of_bytes["add_prefix_space"] or of_bytes["use_regex"]:
        return None
    special = ("byte_fallback", "dropout", "continuing_subword_prefix", "end_of_word_suffix")
    if model["type"] != "BPE" or any(model.get(option) for option in special):
        return None
    expression = split["pattern"].get("Regex")
    name = next((name for name, pattern in PATTERNS.items() if pattern == expression), None)
    return name if name is not None and bool(model.get("ignore_merges")) == ignores_merges(name) else None
