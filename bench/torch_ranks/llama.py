# SPDX-License-Identifier: Apache-2.0
"""A LLaMA-style language model in plain PyTorch: RMSNorm before each part, rotary attention, SwiGLU, an output
layer of its own. With the sizes below, 33.7 M parameters: 135 MB of gradients."""
import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"width": 512, "layers": 8, "heads": 8, "hidden": 1376, "words": 8192}
TINY = {"width": 64, "layers": 2, "heads": 4, "hidden": 160, "words": 256}


def rotate(x, rotary):
    """Rotary position embedding (Su et al. 2021, arXiv 2104.09864) of (batch, heads, length, head width)."""
    cos, sin = rotary
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Layer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, rotary):
        batch, length, width = x.shape
        normed = self.before_attention(x)
        q, k, v = (part(normed).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        attended = F.scaled_dot_product_attention(rotate(q, rotary), rotate(k, rotary), v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        normed = self.before_feed(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    def __init__(self, width, layers, heads, hidden, words, length):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        nn.init.normal_(self.embed.weight, std=0.02)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length), 10000.0 ** -(torch.arange(half) / half))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, words):
        x = self.embed(words)
        rotary = self.cos[: words.shape[1]], self.sin[: words.shape[1]]
        for layer in self.layers:
            x = layer(x, rotary)
        return self.head(self.norm(x))
