"""A small convolutional network learns digits: torch trains it, mdtensor computes its layers.

python examples/cnn_training.py [--steps 100] [--seed 0]    needs torch

Convolutions, poolings, products and the loss, and their gradients, are mdtensor's calls on torch's
tensors; all else is torch's. In the first step all gradients are compared with torch's own.
"""

from __future__ import annotations

import argparse
import importlib.util

import mdtensor as mdt

if importlib.util.find_spec("torch") is None:
    text = "this example trains with torch: pip install torch"
    raise ModuleNotFoundError(text, name="torch")

import torch
from torch import Tensor, nn
from torch.nn import functional

DIGITS = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#...# ..#.. ...#. .###. .#.#. ####. ####. ...#. .###. .####
#...# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
.###. .###. ##### ####. ...#. ####. .###. ..#.. .###. .###.
"""
SIZE = 12  # of an image
BATCH = 64
STEPS, GOAL = 100, 0.9  # after so many steps, at least this share of digits is read right


def digits(count: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Images float32[count, 1, SIZE, SIZE] of digits somewhere in noise, and which these are."""
    rows = [line.split() for line in DIGITS.split("\n") if line]
    shapes = torch.tensor([[[c == "#" for c in row[n]] for row in rows] for n in range(10)])
    large = shapes.float().repeat_interleave(2, dim=1).repeat_interleave(2, dim=2)
    labels = torch.randint(10, (count,), generator=draw)
    places = torch.randint(SIZE - large.shape[1] + 1, (count, 2), generator=draw)
    images = 0.5 * torch.randn(count, 1, SIZE, SIZE, generator=draw)
    for image, label, (top, left) in zip(images, labels, places.tolist(), strict=True):
        image[0, top : top + large.shape[1], left : left + large.shape[2]] += large[label]
    return images, labels


class Network(nn.Module):
    """Two convolutions, each halved by a pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(8, 1, 5, 5) / 5)
        self.first_bias = nn.Parameter(torch.zeros(8))
        self.second = nn.Parameter(torch.randn(16, 8, 3, 3) / 72**0.5)
        self.second_bias = nn.Parameter(torch.zeros(16))
        self.last = nn.Parameter(torch.randn(10, 16, SIZE // 4, SIZE // 4) / SIZE)
        self.last_bias = nn.Parameter(torch.zeros(10))

    def forward(self, images: Tensor) -> Tensor:
        conv = mdt.torch.conv
        x = mdt.max_pool(conv(images, self.first, self.first_bias, padding=2, epilogue="relu"), 2)
        x = mdt.max_pool(conv(x, self.second, self.second_bias, padding=1, epilogue="relu"), 2)
        return mdt.einsum("nchw,kchw->nk", x, self.last) + self.last_bias

    def by_torch(self, images: Tensor) -> Tensor:
        conv, pool = functional.conv2d, functional.max_pool2d
        x = pool(conv(images, self.first, self.first_bias, padding="same").relu(), 2)
        x = pool(conv(x, self.second, self.second_bias, padding="same").relu(), 2)
        return functional.linear(x.flatten(1), self.last.flatten(1), self.last_bias)


def difference_of_gradients(network: Network, images: Tensor, labels: Tensor) -> float:
    """The largest difference from torch's gradients in float64, as a part of the largest one."""
    exact = Network().double()
    exact.load_state_dict(network.state_dict())
    functional.cross_entropy(exact.by_torch(images.double()), labels).backward()
    mdt.cross_entropy(network(images), labels).backward()
    found = [
        float((mine.grad - due.grad).abs().max() / due.grad.abs().max())
        for mine, due in zip(network.parameters(), exact.parameters(), strict=True)
    ]
    network.zero_grad()
    return max(found)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on digits.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    draw = torch.Generator().manual_seed(given.seed)
    network = Network()

    difference = difference_of_gradients(network, *digits(BATCH, draw))
    if difference > 1e-4:
        raise SystemExit(f"gradients differ from torch's by {difference:.1e} of the largest one")
    print(f"gradients agree with torch's in float64: {difference:.1e} of the largest one")

    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for step in range(given.steps):
        images, labels = digits(BATCH, draw)
        loss = mdt.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0 or step == given.steps - 1:
            print(f"step {step:4}: loss {loss.item():.3f}")

    images, labels = digits(1000, draw)
    with torch.no_grad():
        accuracy = float((network(images).argmax(1) == labels).double().mean())
    if given.steps >= STEPS and accuracy < GOAL:
        raise SystemExit(f"only {accuracy:.1%} of 1000 new digits are read right")
    print(f"{accuracy:.1%} of 1000 new digits are read right")


if __name__ == "__main__":
    main()
