"""A GPT writes token after token, with a cache of keys and values, by NumPy and by mdtensor.

python examples/gpt_decoding.py [--layers 2] [--heads 4] [--channels 128] [--tokens 48] ...

Its weights are random, so what it writes says nothing; what it computes is what a trained one does.
With every token the cache is one longer, so attention has another shape in every step. Kernels that
take extents as arguments serve all of them: nothing is compiled for a length.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import mdtensor as mdt

EPSILON = 1e-5
GELU = (2 / np.pi) ** 0.5, 0.044715  # its approximation by tanh, as GPT-2 has it
Array = np.ndarray


@dataclass(frozen=True)
class Layer:
    norm: Array
    to_heads: Array  # queries, keys and values: [3, head, channel of a head, channel]
    from_heads: Array  # [channel, head, channel of a head]
    second_norm: Array
    wider: Array  # [4 * channel, channel]
    narrower: Array


@dataclass(frozen=True)
class Model:
    tokens: Array  # [token, channel], which tokens are read and written by
    positions: Array  # [position, channel]
    layers: tuple[Layer, ...]
    norm: Array


def random_model(sizes: argparse.Namespace) -> Model:
    draw = np.random.default_rng(sizes.seed)
    channels, heads = sizes.channels, sizes.heads
    each = channels // heads

    def weights(*shape: int, of: int = channels) -> Array:
        return draw.standard_normal(shape, np.float32) / np.float32(of**0.5)

    def norm() -> Array:
        return 1 + weights(channels, of=100)

    layers = [
        Layer(
            norm(),
            weights(3, heads, each, channels),
            weights(channels, heads, each),
            norm(),
            weights(4 * channels, channels),
            weights(channels, 4 * channels, of=4 * channels),
        )
        for _ in range(sizes.layers)
    ]
    tokens = weights(sizes.vocabulary, channels)
    return Model(tokens, weights(sizes.tokens, channels), tuple(layers), norm())


class Functions(Protocol):
    """What a step of decoding is made of."""

    def layer_norm(self, x: Array, weight: Array) -> Array: ...
    def to_heads(self, weights: Array, x: Array) -> Array: ...
    def attention(self, query: Array, keys: Array, values: Array) -> Array: ...
    def from_heads(self, weights: Array, heads: Array, x: Array) -> Array: ...
    def network(self, wider: Array, narrower: Array, normal: Array, x: Array) -> Array: ...
    def logits(self, tokens: Array, x: Array) -> Array: ...


def gelu(x: Any) -> Any:
    """Of NumPy's arrays, and of the symbols that mdtensor makes kernels of."""
    return 0.5 * x * (1 + np.tanh(GELU[0] * (x + GELU[1] * x * x * x)))


class ByMdtensor:
    def layer_norm(self, x: Array, weight: Array) -> Array:
        return mdt.layer_norm(x, weight, eps=EPSILON)

    def to_heads(self, weights: Array, x: Array) -> Array:
        return mdt.einsum("nhcd,d->nhc", weights, x)

    def attention(self, query: Array, keys: Array, values: Array) -> Array:
        scores = mdt.einsum("hc,htc->ht", query, keys)
        return mdt.einsum("ht,htc->hc", mdt.softmax(scores), values)

    def from_heads(self, weights: Array, heads: Array, x: Array) -> Array:
        return mdt.einsum("dhc,hc->d; d", weights, heads, x, epilogue=plus)

    def network(self, wider: Array, narrower: Array, normal: Array, x: Array) -> Array:
        wide = mdt.einsum("wd,d->w", wider, normal, epilogue=gelu)
        return mdt.einsum("dw,w->d; d", narrower, wide, x, epilogue=plus)

    def logits(self, tokens: Array, x: Array) -> Array:
        return mdt.matmul(tokens, x)


def plus(total: Any, x: Any) -> Any:
    return total + x


class ByNumPy:
    def layer_norm(self, x: Array, weight: Array) -> Array:
        distances = x - x.mean()
        return distances / np.sqrt(np.square(distances).mean() + x.dtype.type(EPSILON)) * weight

    def to_heads(self, weights: Array, x: Array) -> Array:
        return (weights.reshape(-1, len(x)) @ x).reshape(weights.shape[:-1])

    def attention(self, query: Array, keys: Array, values: Array) -> Array:
        scores = keys @ query[..., None]
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return (powers.mT @ values)[:, 0] / powers.sum(axis=1)

    def from_heads(self, weights: Array, heads: Array, x: Array) -> Array:
        return weights.reshape(len(x), -1) @ heads.ravel() + x

    def network(self, wider: Array, narrower: Array, normal: Array, x: Array) -> Array:
        return narrower @ gelu(wider @ normal) + x

    def logits(self, tokens: Array, x: Array) -> Array:
        return tokens @ x


class Decoder:
    """Tokens in, logits of the next one out; keys and values of all before are kept."""

    def __init__(self, model: Model, by: Functions) -> None:
        heads, each = model.layers[0].to_heads.shape[1:3]
        self.model, self.by, self.length = model, by, 0
        self.cache = np.empty((len(model.layers), 2, heads, len(model.positions), each), np.float32)
        self.scale = np.float32(each**-0.5)

    def step(self, token: int) -> Array:
        by, model = self.by, self.model
        x = model.tokens[token] + model.positions[self.length]
        self.length += 1
        for layer, kept in zip(model.layers, self.cache, strict=True):
            heads = by.to_heads(layer.to_heads, by.layer_norm(x, layer.norm))
            kept[:, :, self.length - 1] = heads[1:]
            keys, values = kept[:, :, : self.length]
            found = by.attention(heads[0] * self.scale, keys, values)
            x = by.from_heads(layer.from_heads, found, x)
            normal = by.layer_norm(x, layer.second_norm)
            x = by.network(layer.wider, layer.narrower, normal, x)
        return by.logits(model.tokens, by.layer_norm(x, model.norm))


def decoded(model: Model, by: Functions) -> tuple[list[int], Array]:
    """The text that begins with token 0, and the logits after each of its tokens."""
    decoder = Decoder(model, by)
    text, logits = [0], list[Array]()
    for _ in model.positions:
        logits.append(decoder.step(text[-1]))
        text.append(int(logits[-1].argmax()))
    return text[:-1], np.array(logits)


def compiling_steps(model: Model, text: list[int]) -> list[int]:
    """The positions of a text at which a call waited for a compiler."""
    decoder, found = Decoder(model, ByMdtensor()), list[int]()
    for position, token in enumerate(text):
        with mdt.trace() as trace:
            decoder.step(token)
        if any(call.seconds_in("compile") for call in trace.calls):
            found.append(position)
    return found


def rates(model: Model, rounds: int) -> dict[str, float]:
    """Tokens per second of both, which take turns: the median of all rounds."""
    seconds = dict[str, list[float]](NumPy=[], mdtensor=[])
    for _ in range(rounds):
        for times, by in zip(seconds.values(), (ByNumPy(), ByMdtensor()), strict=True):
            began = time.perf_counter()
            decoded(model, by)
            times.append(time.perf_counter() - began)
    return {name: len(model.positions) / np.median(times) for name, times in seconds.items()}


def reference(model: Model, text: list[int]) -> Array:
    """The logits of all positions of a text at once, without a cache, in float64."""
    x = (model.tokens[text] + model.positions).astype(np.float64)
    unseen = np.triu(np.full((len(text), len(text)), -np.inf), 1)

    def layer_norm(x: Array, weight: Array) -> Array:
        variance = x.var(axis=-1, keepdims=True)
        return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(variance + EPSILON) * weight

    for layer in model.layers:
        normal = layer_norm(x, layer.norm)
        queries, keys, values = np.einsum("nhcd,td->nhtc", layer.to_heads, normal)
        scores = queries @ keys.mT / np.sqrt(queries.shape[-1]) + unseen
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        x = x + np.einsum("dhc,htc->td", layer.from_heads, weights @ values)
        normal = layer_norm(x, layer.second_norm)
        x = x + gelu(normal @ layer.wider.T) @ layer.narrower.T
    return layer_norm(x, model.norm) @ model.tokens.T


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Decode with NumPy and with mdtensor.")
    sizes = {"layers": 2, "heads": 4, "channels": 128, "vocabulary": 512, "tokens": 48}
    for name, size in (sizes | {"rounds": 5, "seed": 0}).items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args()
    if given.channels % given.heads:
        parser.error(f"{given.channels} channels can't be divided among {given.heads} heads")
    return given


def main() -> None:
    sizes = parsed()
    model = random_model(sizes)
    began = time.perf_counter()
    compiling = compiling_steps(model, [0] * sizes.tokens)
    print(
        f"{sizes.tokens} lengths, all of them new: {time.perf_counter() - began:.2f} s; "
        f"kernels were compiled at positions {compiling}"
    )
    for name, rate in rates(model, sizes.rounds).items():
        print(f"{name:8} {rate:6.0f} tokens/s")

    text, logits = decoded(model, ByMdtensor())
    exact = reference(model, text)
    error = float(np.abs(logits - exact).max() / np.abs(exact).max())
    if error > 1e-5:
        raise SystemExit(f"logits differ from float64 by {error:.1e} of the largest one")
    print(f"logits agree with float64: {error:.1e} of the largest one")


if __name__ == "__main__":
    main()
