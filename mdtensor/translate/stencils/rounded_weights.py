"""Rounding of weights to a narrower type that preserves their sum."""

from __future__ import annotations

import numpy as np


def rounded_weights(weights: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round weights to a float or complex type, with error diffusion.

    What rounding takes from a weight is given to the next smaller one, so that the sum is wrong by
    less than the smallest of them: a blur keeps the mean of an image. Zeros stay zeros.

    >>> thirds, single = np.full(3, 1 / 3), np.dtype(np.float32)
    >>> sum(thirds.astype(single).tolist()), sum(rounded_weights(thirds, single).tolist())
    (1.0000000298023224, 1.0)
    """
    rounded = weights.astype(dtype)
    if np.can_cast(weights.dtype, dtype) or not np.isfinite(rounded).all():
        return rounded
    if dtype.kind == "c":
        single = np.finfo(dtype).dtype
        parts = [rounded_weights(part(weights), single) for part in (np.real, np.imag)]
        return np.stack(parts, axis=-1).view(dtype)[..., 0]
    left, exact, line = 0.0, weights.reshape(-1), rounded.reshape(-1)  # `flat` takes 32 axes
    for place in np.argsort(-np.abs(line), kind="stable"):
        if weight := float(exact[place]):
            line[place] = weight + left
            left += weight - float(line[place])
    return line.reshape(rounded.shape)
