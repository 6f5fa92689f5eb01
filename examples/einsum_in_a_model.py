"""A layer whose contractions are einsums: compute it, and see what ran.

python examples/einsum_in_a_model.py
"""

from __future__ import annotations

import numpy as np

import mdtensor as mdt


def attention(queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Multi-head attention: arrays are [batch, position, head, channel]."""
    scale = np.float32(1 / np.sqrt(queries.shape[-1]))
    scores = mdt.einsum("bqhc,bkhc->bhqk", queries, keys) * scale
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= mdt.einsum("bhqk->bhq", weights)[..., None]
    return mdt.einsum("bhqk,bkhc->bqhc", weights, values)


def main() -> None:
    rng = np.random.default_rng(0)
    queries, keys, values = rng.standard_normal((3, 2, 64, 4, 32), np.float32)
    result = attention(queries, keys, values)
    print(f"{result.dtype.name}{list(result.shape)}, computed by")
    print(mdt.stats())
    print(mdt.compile("bqhc,bkhc->bhqk", queries, keys).explain().partition("source")[0])


if __name__ == "__main__":
    main()
