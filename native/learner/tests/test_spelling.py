"""How a SentencePiece vocabulary treats spaces, told from small ones that are trained here."""

import io
import json

import pytest
from learner.spelling import PROBES, spelling
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import AddedToken, Tokenizer, models, normalizers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import generate_merges

CONTROL = ["<unk>", "<s>", "</s>"]
RULES = dict(normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True)
SIZES = dict(
    vocab_size=400, split_digits=True, hard_vocab_limit=False, byte_fallback=True, num_threads=1, minloglevel=2
)


def trained(kind):
    written = io.BytesIO()
    texts = [line for text in PROBES for line in text.splitlines() if line] * 4
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=written, model_type=kind, pad_id=-1, **RULES, **SIZES
    )
    return written.getvalue()


@pytest.fixture(scope="module")
def pieces():
    return {kind: trained(kind) for kind in ("bpe", "unigram")}


def write(folder, pieces, kind="bpe", space=True, added=(), other=None):
    """A folder with both forms of a vocabulary; `other` pieces are another one's in tokenizer.model."""
    (folder / "tokenizer.model").write_bytes(other or pieces[kind])
    processor = SentencePieceProcessor(model_proto=pieces[kind])
    scores = {processor.id_to_piece(number): processor.get_score(number) for number in range(len(processor))}
    words = {piece: number for number, piece in enumerate(scores)}
    if kind == "bpe":
        normal = {piece: number for piece, number in words.items() if not processor.is_control(number)}
        merges = generate_merges(normal, scores)
        model = models.BPE(words, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    else:
        model = models.Unigram(list(scores.items()), 0, byte_fallback=True)
    tokenizer = Tokenizer(model)
    before = [normalizers.Prepend("▁")] if space else []
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", "▁")])
    special = [*CONTROL, *added]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(folder)
    return folder


def test_a_tokenizer_that_drops_white_space_behind_a_special_token_is_refused(tmp_path, pieces):
    """As Phi 3's: llama.cpp gets the text of a chat template as it stands."""
    folder = write(tmp_path, pieces, added=["<|user|>"])
    file = folder / "tokenizer.json"
    about = json.loads(file.read_text())
    (token,) = (one for one in about["added_tokens"] if one["content"] == "<|user|>")
    file.write_text(json.dumps(about | {"added_tokens": [*about["added_tokens"][:-1], token | {"rstrip": True}]}))
    found = spelling(folder)
    assert found["space"] is None and "drops white space behind <|user|>" in found["reason"]


@pytest.mark.parametrize("space", [True, False])
@pytest.mark.parametrize("added", [[], ["<|user|>", "<|assistant|>"], ["[INST]", "[/INST]"], ["<|im_start|>"]])
def test_says_whether_a_space_comes_before_a_text_with_any_tokens_of_a_chat_template(tmp_path, pieces, space, added):
    assert spelling(write(tmp_path, pieces, space=space, added=added)) == {"space": space}


def test_a_vocabulary_that_is_not_merged_by_pairs_is_refused(tmp_path, pieces):
    folder = write(tmp_path, pieces, "unigram")
    # By SentencePiece itself the two forms are the same.
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    processor = SentencePieceProcessor(model_proto=pieces["unigram"])
    assert all(tokenizer.encode(text, add_special_tokens=False) == processor.encode(text) for text in PROBES)
    answer = spelling(folder)
    assert answer["space"] is None and "of the kind Unigram" in answer["reason"]


def test_the_reason_is_the_one_of_the_way_that_agrees_on_more_texts(tmp_path, pieces):
    # The last probe alone has such brackets: with a space before no text all others are the same.
    other = pieces["bpe"].replace("“".encode(), "„".encode())
    assert len(other) == len(pieces["bpe"]) and other != pieces["bpe"]
    answer = spelling(write(tmp_path, pieces, space=False, other=other))
    assert answer["space"] is None
    assert answer["reason"].startswith("its SentencePiece vocabulary is not the one of its tokenizer: ")
    assert repr(PROBES[-1]) in answer["reason"]


def test_a_vocabulary_with_an_added_token_in_every_text_is_not_guessed(tmp_path, pieces):
    answer = spelling(write(tmp_path, pieces, added=["o", "1", "s", "<|"]))
    assert answer["space"] is None and "was added to its vocabulary" in answer["reason"]
