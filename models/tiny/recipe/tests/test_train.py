import torch
from tokenizers import Tokenizer

from ..initialise import initialise_standard
from ..model import Shape, TinyModel
from ..tokenizer import drawn_tokens, name_tokens
from ..traces import Renamer
from ..train import DrawnEmbeddings, Step, Trainer
from .sample import NAMES, SYMBOLS, conversation


def test_embeddings_of_symbols_and_reserved_names_are_drawn_and_all_others_learned(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    model = TinyModel(Shape(tokenizer.get_vocab_size(), width=32, layers=1, heads=1, head_width=32, feed_forward=32))
    initialise_standard(model)
    weight = model.model.embed_tokens.weight
    drawn, names = drawn_tokens(tokenizer, NAMES, SYMBOLS), name_tokens(tokenizer, NAMES)
    words = {tokenizer.id_to_token(token) for token in drawn}
    assert {"Astrid", "astrid", "Zavora"} <= words and not words & {"Wanda", "Falcon"}

    draws: list[torch.Tensor] = []

    class Recorded(DrawnEmbeddings):
        def draw(self) -> None:
            super().draw()
            draws.append(weight[drawn].clone())

    rare = Recorded(weight, drawn, names)
    before = weight[names].clone()
    trainer = Trainer(model, tokenizer, Renamer(NAMES, SYMBOLS, 1), rare, 0, lambda _: None)
    trainer.run(lambda done: Step(1 - done, excerpts=0.5), 20_000, minutes=5, traces=[("who", conversation())])

    assert torch.equal(weight[drawn], draws[-1]) and not torch.equal(draws[0], draws[-1])
    assert not torch.equal(weight[names], before)
    spread = weight[drawn].std() / weight[names].std()
    assert 0.7 < spread < 1.4
