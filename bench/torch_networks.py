"""Networks of torch with random weights, and inputs for them, that compiled graphs are timed on."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class MLP(nn.Module):
    """Three linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class Block(nn.Module):
    """Attention and a perceptron, each behind a layer norm and beside what it is given."""

    def __init__(self, width: int, heads: int, *, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, -1)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(width // self.heads)
        if self.is_causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A decoder of text."""

    def __init__(self, words: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(128, width)
        blocks = (Block(width, heads, is_causal=True) for _ in range(layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, text: Any) -> Any:
        x = self.words(text) + self.places.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class ViT(nn.Module):
    """A vision transformer on patches of 16 by 16 pixels."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width))
        blocks = (Block(width, heads, is_causal=False) for _ in range(layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: Any) -> Any:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(len(x), -1, -1), x), 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Residual(nn.Module):
    """Two convolutions of 3 by 3 beside what they are given."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + x)


class Bottleneck(nn.Module):
    """Convolutions of 1 by 1, 3 by 3 and 1 by 1 beside what they are given."""

    def __init__(self, given: int, channels: int, stride: int) -> None:
        super().__init__()
        made = 4 * channels
        self.conv1 = nn.Conv2d(given, channels, 1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(channels, made, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.norm3 = nn.BatchNorm2d(made)
        is_same = stride == 1 and given == made
        beside = (nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))
        self.beside = nn.Identity() if is_same else nn.Sequential(*beside)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.beside(x))


class ResNet(nn.Module):
    """ResNet-50 for other numbers of blocks."""

    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        layers: list[nn.Module] = []
        given = 64
        for stage, count in enumerate(blocks):
            for number in range(count):
                stride = 2 if stage and not number else 1
                layers.append(Bottleneck(given, 64 << stage, stride))
                given = 256 << stage
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(given, 1000)

    def forward(self, images: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm(self.conv(images))), 3, 2, 1)
        return self.head(self.layers(x).mean((2, 3)))


class Twice(nn.Sequential):
    """Twice a convolution of 3 by 3, a batch norm and a ReLU."""

    def __init__(self, given: int, made: int) -> None:
        layers: list[nn.Module] = []
        for channels in (given, made):
            conv = nn.Conv2d(channels, made, 3, padding=1, bias=False)
            layers += [conv, nn.BatchNorm2d(made), nn.ReLU()]
        super().__init__(*layers)


class UNet(nn.Module):
    """A U-Net that halves images as often as it has widths less one."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(Twice(given, made) for given, made in pairs)
        back = [(low + high, high) for high, low in pairwise(widths)]
        self.up = nn.ModuleList(Twice(given, made) for given, made in reversed(back))
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Any) -> Any:
        kept: list[Any] = []
        for number, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if number else x)
            kept.append(x)
        kept.pop()
        for layer in self.up:
            x = layer(torch.cat((F.interpolate(x, scale_factor=2.0), kept.pop()), 1))
        return self.head(x)


# By name: what makes a network, and its input.
NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "MLP 784-512-512-10, batch 64": (MLP, partial(torch.randn, 64, 784)),
    "GPT 2x256, 4x64": (partial(GPT, 256, 256, 4, 2), partial(torch.randint, 256, (4, 64))),
    "ResNet block 64, 4x28x28": (Residual, partial(torch.randn, 4, 64, 28, 28)),
    "GPT 12x768, 1x128": (
        partial(GPT, 32768, 768, 12, 12),
        partial(torch.randint, 32768, (1, 128)),
    ),
    "ResNet-50, 1x224x224": (ResNet, partial(torch.randn, 1, 3, 224, 224)),
    "ViT 12x384, 1x224x224": (partial(ViT, 384, 6, 12), partial(torch.randn, 1, 3, 224, 224)),
    "U-Net 32-64-128-256, 1x128x128": (
        partial(UNet, 32, 64, 128, 256),
        partial(torch.randn, 1, 3, 128, 128),
    ),
}
