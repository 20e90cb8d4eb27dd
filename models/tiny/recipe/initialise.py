"""Initial weights that already know how to copy.

Tool calls are mostly copying: a project's name from the question, an id from a search result, an answer from a mail.
Transformers learn that late, as induction heads (Olsson et al. 2022, arXiv:2209.11895): one head tells each token what
stood before it, a head of a later layer looks for places where the same thing came before, and copies what followed.
Here those heads are there from the start, as random projections with the right wiring; training does the rest.

Notation: a "subspace" is a matrix (width, head width) with orthonormal columns.
"""

import torch
from torch import Tensor, nn

from .model import Attention, Shape, TinyModel

EMBEDDING_SCALE = 0.06
# Of what is written into the residual stream by an untrained block, relative to 1/sqrt(width).
OUTPUT_SCALE = 0.05
# A look-back head: strength of its positional vectors, how many of the fastest rotary pairs carry them, output scale.
POSITION_STRENGTH = 7.0
POSITION_PAIRS = 6
LOOK_BACK_SCALE = 0.085
# A copying head: strength of its match, noise on the rest of it, output scale.
MATCH_STRENGTH = 1.6
NOISE = 0.02
COPY_SCALE = 0.15
# Rotary pairs slow enough to compare tokens this far apart as if they stood together.
MATCH_DISTANCE = 500
MATCH_ANGLE = 0.7


def initialise_standard(model: TinyModel) -> None:
    """Normal weights, small outputs: the usual start, and the ground for the structured one."""
    spread = model.shape.width**-0.5
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif "embed" in name:
            nn.init.normal_(parameter, 0, EMBEDDING_SCALE)
        elif parameter.dim() == 2:
            writes = "o_proj" in name or "down_proj" in name
            nn.init.normal_(parameter, 0, spread * (OUTPUT_SCALE if writes else 1))


def _subspaces(width: int, head_width: int, count: int) -> list[Tensor]:
    """Subspaces orthogonal to each other."""
    basis = torch.linalg.qr(torch.randn(width, width))[0]
    return [basis[:, i * head_width : (i + 1) * head_width] for i in range(count)]


def _rotary_frequencies(shape: Shape) -> Tensor:
    """Radians a position for each rotary pair, fastest first."""
    return shape.rope_theta ** (-torch.arange(0, shape.head_width, 2) / shape.head_width)


class _Head:
    """The rows of one head in its layer's projections."""

    def __init__(self, attention: Attention, index: int, shape: Shape):
        self.shape = shape
        rows = slice(index * shape.head_width, (index + 1) * shape.head_width)
        self.query, self.key, self.value = (
            projection.weight[rows] for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        self.query_bias, self.key_bias = attention.q_proj.bias[rows], attention.k_proj.bias[rows]
        self.output = attention.o_proj.weight[:, rows]

    def look_back(self, distance: int, read: Tensor, write: Tensor) -> None:
        """Attends to the token `distance` before, whatever it is: moves what it has in `read` to `write`.

        With key (s, 0) and query s·(cos dθ, -sin dθ) in a rotary pair of frequency θ, the score at m - n tokens back is
        s²·cos((m - n - d)θ): greatest at d.
        """
        half = self.shape.head_width // 2
        angles = distance * _rotary_frequencies(self.shape)[:POSITION_PAIRS]
        self.key_bias[:POSITION_PAIRS] = POSITION_STRENGTH
        self.query_bias[:POSITION_PAIRS] = POSITION_STRENGTH * angles.cos()
        self.query_bias[half : half + POSITION_PAIRS] = -POSITION_STRENGTH * angles.sin()
        for weight in (self.query, self.key):
            nn.init.normal_(weight, 0, NOISE / 2)
        self.value.copy_(read.T)
        self.output.copy_(LOOK_BACK_SCALE * write)

    def copy_where(self, matches: list[tuple[Tensor, Tensor]], scale: float = COPY_SCALE) -> None:
        """Attends to positions whose keys' subspace holds what the query's holds here, for each (query, key) pair;
        copies what stands there through a random subspace, so that its token becomes likelier."""
        half = self.shape.head_width // 2
        slow = (_rotary_frequencies(self.shape) * MATCH_DISTANCE < MATCH_ANGLE).nonzero()[:, 0]
        dimensions = torch.cat([slow, slow + half])
        for weight in (self.query, self.key):
            nn.init.normal_(weight, 0, NOISE)
        for (query, key), rows in zip(matches, dimensions.chunk(len(matches)), strict=True):
            self.query[rows] = MATCH_STRENGTH * query.T[: len(rows)]
            self.key[rows] = MATCH_STRENGTH * key.T[: len(rows)]
        through = _subspaces(self.shape.width, self.shape.head_width, 1)[0]
        self.value.copy_(through.T)
        self.output.copy_(scale * through)


@torch.no_grad()
def initialise_structured(model: TinyModel) -> None:
    """Layer 0 tells each token its predecessors; the layers above copy what followed the same token, or the same two
    tokens, before. One head of each layer is left to look for equal tokens, weakly. Draws from torch's global RNG."""
    shape = model.shape
    if shape.heads != 4 or shape.layers < 2:
        raise ValueError("the structured start is laid out for four heads and at least two layers")
    initialise_standard(model)
    token, other_token, *_ = _subspaces(shape.width, shape.head_width, 4)
    previous, before_previous, other_previous, _ = _subspaces(shape.width, shape.head_width, 4)

    first, *above = model.model.layers
    heads = [_Head(first.self_attn, index, shape) for index in range(shape.heads)]
    heads[0].look_back(1, token, previous)
    heads[1].look_back(2, token, before_previous)
    heads[2].look_back(1, other_token, other_previous)
    heads[3].copy_where([(token, token)], COPY_SCALE / 3)
    for layer in above:
        heads = [_Head(layer.self_attn, index, shape) for index in range(shape.heads)]
        heads[0].copy_where([(token, previous)])
        heads[1].copy_where([(token, previous), (previous, before_previous)])
        heads[2].copy_where([(other_token, other_previous)])
        heads[3].copy_where([(token, token)], COPY_SCALE / 3)
