"""`mdtensor demo`: a network that learns to read digits, all of whose contractions are einsums.

The images are those of scikit-learn's `load_digits`. One epoch is recorded, the shapes seen are
tuned, then the network is trained and each shape compared with NumPy.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import typer

import mdtensor
from mdtensor.api.cli.compare import compare, load_note, table_of
from mdtensor.api.cli.expression_arguments import Expression
from mdtensor.api.cli.tables import show
from mdtensor.api.engine.tuning_mode import RecordedCall
from mdtensor.dataclass import dataclass
from mdtensor.errors import MdtensorError
from mdtensor.translate.md_hom import MDHom

HIDDEN = 256
BATCH = 128
LEARNING_RATE = 2e-3
HELD_OUT = 360
SEED = 0

_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Digits:
    """Images as rows of pixels between 0 and 1, with their digits, in two disjoint parts."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits() -> Digits:
    """The 1,797 images of scikit-learn, shuffled and divided.

    Raises MdtensorError where scikit-learn is not installed.
    """
    try:
        datasets: Any = importlib.import_module("sklearn.datasets")
    except ImportError:
        raise MdtensorError(
            "the demo reads its images from scikit-learn, which is not installed",
            hint="pip install 'mdtensor[demo]'",
        ) from None
    pixels, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(labels))
    images = (pixels[order] / 16).astype(np.float32)
    labels = labels[order]
    return Digits(images[HELD_OUT:], labels[HELD_OUT:], images[:HELD_OUT], labels[:HELD_OUT])


class Network:
    """Fully connected layers with ReLU between them and a softmax at the end, trained by Adam."""

    def __init__(self, sizes: Sequence[int]) -> None:
        rng = np.random.default_rng(SEED)
        self.weights = [
            rng.normal(0, np.sqrt(2 / before), (before, after)).astype(np.float32)
            for before, after in pairwise(sizes)
        ]
        self.biases = [np.zeros(after, np.float32) for after in sizes[1:]]
        self._moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]
        self._steps = 0

    @property
    def parameters(self) -> list[np.ndarray]:
        """Weights and biases, which steps change in place."""
        return [*self.weights, *self.biases]

    def activations(self, images: np.ndarray) -> list[np.ndarray]:
        """The input of each layer, and the digits' scores at the end."""
        values = [images]
        last = len(self.weights) - 1
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            sums = mdtensor.einsum("bi,ij->bj", values[-1], weight) + bias
            values.append(sums if number == last else np.maximum(sums, 0))
        return values

    def predict(self, images: np.ndarray) -> np.ndarray:
        """The most likely digit of each image."""
        return self.activations(images)[-1].argmax(axis=1)

    def loss_and_gradients(
        self, images: np.ndarray, wanted: np.ndarray
    ) -> tuple[float, list[np.ndarray]]:
        """Mean cross entropy, and its gradients in the order of `parameters`.

        `wanted` has a row per image with 1 at its digit and 0 elsewhere.
        """
        *inputs, scores = self.activations(images)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        likely = powers / mdtensor.einsum("bk->b", powers)[:, None]
        loss = -mdtensor.einsum("bk,bk->", wanted, np.log(likely + 1e-12)) / len(images)
        delta = (likely - wanted) / np.float32(len(images))
        of_weights: list[np.ndarray] = []
        of_biases: list[np.ndarray] = []
        for number in reversed(range(len(self.weights))):
            of_weights.insert(0, mdtensor.einsum("bi,bj->ij", inputs[number], delta))
            of_biases.insert(0, mdtensor.einsum("bj->j", delta))
            if number:
                passed = mdtensor.einsum("bj,ij->bi", delta, self.weights[number])
                delta = passed * (inputs[number] > 0)
        return float(loss), [*of_weights, *of_biases]

    def step(self, images: np.ndarray, wanted: np.ndarray) -> float:
        """Train on one batch; returns the loss before it."""
        loss, gradients = self.loss_and_gradients(images, wanted)
        self._steps += 1
        rate = LEARNING_RATE * np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps)
        for parameter, gradient, (mean, square) in zip(
            self.parameters, gradients, self._moments, strict=True
        ):
            mean[...] += np.float32(0.1) * (gradient - mean)
            square[...] += np.float32(0.001) * (gradient * gradient - square)
            parameter[...] -= np.float32(rate) * mean / (np.sqrt(square) + np.float32(1e-8))
        return loss


def train(network: Network, digits: Digits, epochs: int) -> Iterator[float]:
    """Train on whole batches in an order drawn anew for each epoch; yields its mean loss."""
    rng = np.random.default_rng(SEED)
    wanted = np.eye(10, dtype=np.float32)[digits.labels]
    for _ in range(epochs):
        order = rng.permutation(len(wanted))
        batches = [order[n : n + BATCH] for n in range(0, len(order) - BATCH + 1, BATCH)]
        losses = [network.step(digits.images[batch], wanted[batch]) for batch in batches]
        yield sum(losses) / len(losses)


def accuracy(network: Network, digits: Digits) -> float:
    """The share of held-out images that are classified correctly."""
    right = network.predict(digits.test_images) == digits.test_labels
    return np.count_nonzero(right) / len(right)


def sparkline(values: Sequence[float]) -> str:
    """A row of bars between the smallest value and the largest.

    >>> sparkline([3.0, 2.0, 1.0, 0.5])
    '█▅▂▁'
    """
    low, high = min(values), max(values)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in values)


def run(*, budget_s: float, epochs: int, rounds: int) -> None:
    """Record, tune, train, and print the accuracy and a comparison of all shapes.

    `rounds` is how often each engine is timed; `epochs` also bounds what is learnt.
    """
    digits = load_digits()
    note = load_note()
    sizes = digits.images.shape[1], HIDDEN, 10
    typer.echo(
        f"handwritten digits: {len(digits.images)} images to train on,"
        f" {len(digits.test_images)} held out\n"
        f"network: {' - '.join(map(str, sizes))}, batches of {BATCH};"
        " every contraction is a mdtensor.einsum"
    )
    seen = record_epoch(digits, sizes)
    typer.echo(f"one epoch recorded: {len(seen)} computations; tuning for {budget_s:g} s")
    typer.echo(mdtensor.tune(seen, budget_s).summary())

    network = Network(sizes)
    mdtensor.stats(reset=True)
    began = time.perf_counter()
    losses = list(train(network, digits, epochs))
    took = time.perf_counter() - began
    line = sparkline([math.log(loss) for loss in losses])
    typer.echo(f"loss {losses[0]:.3f} {line} {losses[-1]:.3f} in {epochs} epochs, {took:.2f} s")
    typer.echo(
        f"accuracy on held-out images: {accuracy(network, digits):.1%}"
        f" ({mdtensor.stats().share:.0%} of all contractions by generated kernels)"
    )
    timed = [compare(expression_of(each.md_hom), rounds=rounds) for each in seen]
    show(table_of(timed, "time of one call"))
    typer.echo(
        "numpy.einsum: the faster of optimize=False and True; ratio: the fastest of the three\n"
        "right columns over tuned; the fastest of several blocks of each engine; untuned:\n"
        'within mdt.tuning("off"), where calls take 2 to 3 µs more'
    )
    if note:
        typer.echo(note)


def record_epoch(digits: Digits, sizes: Sequence[int]) -> list[RecordedCall]:
    """All computations of one epoch and of the test after it, named by what they compute."""
    with mdtensor.tuning("record") as seen:
        network = Network(sizes)
        list(train(network, digits, epochs=1))
        accuracy(network, digits)
    return [RecordedCall(each.md_hom, str(expression_of(each.md_hom))) for each in seen]


def expression_of(md_hom: MDHom) -> Expression:
    """The einsum string that a recorded computation came from, with its operands' specs."""
    operands = ",".join("".join(access.dims) for access in md_hom.inp_view)
    text = f"{operands}->{''.join(md_hom.out_view[0].dims)}"
    return Expression(text, tuple(buffer.spec for buffer in md_hom.inputs))
