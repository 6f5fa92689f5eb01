"""Cross entropy of integer labels and unnormalised scores (logits) of classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module, as_array
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.frontends.axes.normalisation import logsumexp
from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import axes_of
from mdtensor.api.frontends.reduce import reduced
from mdtensor.errors import DTypeError, IndexingError, ShapeError, shown
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction


@with_call_cache
def cross_entropy(x: Any, labels: Any, axis: int | str = -1) -> Array:
    """The mean of `-log_softmax(x, axis)` at the labels, in nats, as torch's `cross_entropy`.

    `labels` are integers, one for each line of `x` along the axis of the classes, in the shape of
    `x` without that axis; those below 0 count from the end. Types are those of `logsumexp`. Lines
    of scores are read twice, and no array of their size is made.

    Raises ShapeError for labels of another shape, DTypeError for labels that are no integers and
    for complex scores, IndexingError for a label that is no class; on a GPU, where that would wait
    for the labels, it is the nearest one.

    >>> cross_entropy([[0.0, 0.0], [5.0, 5.0]], [0, 1]).round(4)
    np.float64(0.6931)
    """
    module = array_module([x, labels])
    scores: Any = as_array("x", x, module)
    labels = as_array("labels", labels, module)
    [classes] = axes_of(axis, scores.ndim)
    count, lines = scores.shape[classes], list(scores.shape)
    del lines[classes]
    if labels.dtype.kind not in "iu":
        raise DTypeError(f"labels are integers, not {labels.dtype.name}")
    if labels.shape != tuple(lines):
        raise ShapeError(
            f"labels have shape {labels.shape}, where x has shape {scores.shape}",
            hint=f"a label for each line along axis {axis}: {tuple(lines)}",
        )
    dims = [f"d{n}" for n in range(len(lines))]
    places = [*dims[:classes], "@1", *dims[classes:]]
    text = f"{' '.join(places)}, {' '.join(dims)} -> {' '.join(dims)}"
    total: Any = logsumexp(scores, classes)
    picked: Any = reduced(Reduction(text), (scores, labels), None, partial(_check, count))
    return (lazy(total) - lazy(picked)).mean().evaluate()


def _check(count: int, _: Array, labels: Array) -> None:
    """Raises IndexingError for a label outside of the classes."""
    if isinstance(labels, np.ndarray) and labels.size:
        for label in (labels.min(), labels.max()):
            if not -count <= label < count:
                raise IndexingError(f"label {shown(int(label))}, where there are {count} classes")
