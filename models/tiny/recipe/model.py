"""The Qwen2 architecture, for training only: causal, no cache, no dropout.

Parameter names are Hugging Face's, so a checkpoint loads there unchanged. Parameters are f32; the residual stream and
all that is computed from it have the type that `hidden` is asked for.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .kernels import CausalAttention, GatedUnit, RMSNorm, Rotate


@dataclass(frozen=True)
class Shape:
    """Dimensions of the model. Every attention head has its own keys and values."""

    vocabulary: int
    width: int = 256
    layers: int = 4
    heads: int = 4
    head_width: int = 64
    feed_forward: int = 640
    rope_theta: float = 1e6
    norm_epsilon: float = 1e-6
    context: int = 4096


class Linear(nn.Linear):
    """Computes in its input's type, whatever the parameters' type."""

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


class Norm(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.width))
        self.epsilon = shape.norm_epsilon

    def forward(self, x: Tensor) -> Tensor:
        return RMSNorm.apply(x, self.weight, self.epsilon)


class Attention(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        inner = shape.heads * shape.head_width
        self.heads = shape.heads
        self.q_proj = Linear(shape.width, inner)
        self.k_proj = Linear(shape.width, inner)
        self.v_proj = Linear(shape.width, inner)
        self.o_proj = Linear(inner, shape.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape

        def split(projected: Tensor) -> Tensor:
            return projected.view(batch, length, self.heads, -1).transpose(1, 2)

        query = Rotate.apply(split(self.q_proj(x)), cos, sin)
        key = Rotate.apply(split(self.k_proj(x)), cos, sin)
        mixed = CausalAttention.apply(query, key, split(self.v_proj(x)).contiguous())
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.gate_proj = Linear(shape.width, shape.feed_forward, bias=False)
        self.up_proj = Linear(shape.width, shape.feed_forward, bias=False)
        self.down_proj = Linear(shape.feed_forward, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(GatedUnit.apply(self.gate_proj(x), self.up_proj(x)))


class Layer(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.input_layernorm = Norm(shape)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape)
        self.mlp = MLP(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape)


class TinyModel(nn.Module):
    """Input and output embeddings are tied."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.model = Body(shape)
        frequency = shape.rope_theta ** (-torch.arange(0, shape.head_width, 2) / shape.head_width)
        angle = torch.outer(torch.arange(shape.context).float(), frequency)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def hidden(self, ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Final hidden states (batch, length, width) of ids (batch, length), padded on the right if at all."""
        length = ids.shape[1]
        cos, sin = self.cos[:length].to(dtype), self.sin[:length].to(dtype)
        x = self.model.embed_tokens(ids).to(dtype)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.model.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (..., vocabulary) of hidden states (..., width)."""
        return F.linear(hidden, self.model.embed_tokens.weight.to(hidden.dtype))

    def forward(self, ids: Tensor) -> Tensor:
        return self.logits(self.hidden(ids))
