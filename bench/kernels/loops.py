"""Loops for numba, as its documentation writes them: parallel over the outermost, fast maths."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import prange

from bench.kernels.records import OTHER, SAME, SAME_ID
from bench.kernels.stencils import GAUSSIAN

# The cache knows changes of this file only; constants of other modules that are out of date would
# fail the check that precedes all measuring.
compiled: Any = numba.njit(parallel=True, fastmath=True, cache=True)
# Global arrays are constants of the compiled code.
WEIGHTS = GAUSSIAN.astype(np.float32)
LAST, FIRST, CITY, POSTCODE, YEAR, MONTH, DAY = zip(SAME.values(), OTHER.values(), strict=True)
THIRD, FIFTH, SEVENTH = np.float32(1 / 3), np.float32(1 / 5), np.float32(1 / 7)


@compiled
def gaussian(u: Any, out: Any) -> Any:
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            total = np.float32(0)
            for r in range(5):
                for s in range(5):
                    total += WEIGHTS[r, s] * u[i + r, j + s]
            out[i, j] = total
    return out


@compiled
def jacobi1d(u: Any, out: Any) -> Any:
    for i in prange(out.shape[0]):
        out[i] = (u[i] + u[i + 1] + u[i + 2]) * THIRD
    return out


@compiled
def jacobi2d(u: Any, out: Any) -> Any:
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            along = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]
            out[i, j] = (u[i + 1, j + 1] + along) * FIFTH
    return out


@compiled
def jacobi3d(u: Any, out: Any) -> Any:
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(out.shape[2]):
                total = u[i + 1, j + 1, k + 1]
                total += u[i, j + 1, k + 1] + u[i + 2, j + 1, k + 1]
                total += u[i + 1, j, k + 1] + u[i + 1, j + 2, k + 1]
                total += u[i + 1, j + 1, k] + u[i + 1, j + 1, k + 2]
                out[i, j, k] = total * SEVENTH
    return out


@compiled
def convolution(img: Any, flt: Any, out: Any, stride: int, padding: int) -> Any:
    count, height, width, channels = img.shape
    filters, rows, columns, _ = flt.shape
    for np_ in prange(count * out.shape[1]):
        n, p = np_ // out.shape[1], np_ % out.shape[1]
        for q in range(out.shape[2]):
            for k in range(filters):
                total = np.float32(0)
                for r in range(rows):
                    y = p * stride + r - padding
                    if y < 0 or y >= height:
                        continue
                    for s in range(columns):
                        x = q * stride + s - padding
                        if x < 0 or x >= width:
                            continue
                        for c in range(channels):
                            total += img[n, y, x, c] * flt[k, r, s, c]
                out[n, p, q, k] = total
    return out


@compiled
def depthwise(img: Any, flt: Any, out: Any, padding: int) -> Any:
    count, height, width, channels = img.shape
    _, rows, columns, _ = flt.shape
    for np_ in prange(count * out.shape[1]):
        n, p = np_ // out.shape[1], np_ % out.shape[1]
        for q in range(out.shape[2]):
            for c in range(channels):
                out[n, p, q, c] = 0
            for r in range(rows):
                y = p + r - padding
                if y < 0 or y >= height:
                    continue
                for s in range(columns):
                    x = q + s - padding
                    if x < 0 or x >= width:
                        continue
                    for c in range(channels):
                        out[n, p, q, c] += img[n, y, x, c] * flt[c, r, s, 0]
    return out


@compiled
def capsules(img: Any, flt: Any, out: Any, stride: int) -> Any:
    channels, inner = img.shape[3], img.shape[5]
    filters, rows, columns = flt.shape[:3]
    for np_ in prange(out.shape[0] * out.shape[1]):
        n, p = np_ // out.shape[1], np_ % out.shape[1]
        for q in range(out.shape[2]):
            for k in range(filters):
                for i in range(out.shape[4]):
                    for j in range(out.shape[5]):
                        total = np.float32(0)
                        for r in range(rows):
                            for s in range(columns):
                                for c in range(channels):
                                    for m in range(inner):
                                        pixel = img[n, p * stride + r, q * stride + s, c, i, m]
                                        total += pixel * flt[k, r, s, c, m, j]
                        out[n, p, q, k, i, j] = total
    return out


@numba.njit(fastmath=True, cache=True)
def scan(x: Any, out: Any) -> Any:
    # `prange` takes no value from one pass of a loop to the next.
    total = np.float32(0)
    for i in range(x.shape[0]):
        total += x[i]
        out[i] = total
    return out


@compiled
def mbbs(a: Any, out: Any) -> Any:
    for i in prange(a.shape[0]):
        total = np.float32(0)
        for j in range(a.shape[1]):
            total += a[i, j]
        out[i] = total
    for i in range(1, a.shape[0]):
        out[i] += out[i - 1]
    return out


@compiled
def histogram(elements: Any, bins: int, parts: int, out: Any) -> Any:
    length = -(-elements.shape[0] // parts)
    counts = np.zeros((parts, bins), np.int64)
    for part in prange(parts):
        for i in range(part * length, min(elements.shape[0], (part + 1) * length)):
            counts[part, elements[i]] += 1
    for b in range(bins):
        out[b] = counts[:, b].sum()
    return out


@compiled
def min_plus(a: Any, b: Any, out: Any) -> Any:
    for i in prange(a.shape[0]):
        for k in range(b.shape[1]):
            out[i, k] = a[i, 0] + b[0, k]
        for j in range(1, a.shape[1]):
            for k in range(b.shape[1]):
                out[i, k] = min(out[i, k], a[i, j] + b[j, k])
    return out


@compiled
def log_sum_exp(a: Any, b: Any, out: Any) -> Any:
    for i in prange(a.shape[0]):
        most = a[i, 0] + b[0]
        total = np.zeros(b.shape[1], np.float32)
        for j in range(1, a.shape[1]):
            for k in range(b.shape[1]):
                most[k] = max(most[k], a[i, j] + b[j, k])
        for j in range(a.shape[1]):
            for k in range(b.shape[1]):
                total[k] += np.exp(a[i, j] + b[j, k] - most[k])
        for k in range(b.shape[1]):
            out[i, k] = most[k] + np.log(total[k])
    return out


@compiled
def argmax_rows(a: Any, out: Any) -> Any:
    for i in prange(a.shape[0]):
        best, place = a[i, 0], 0
        for j in range(1, a.shape[1]):
            if a[i, j] > best:
                best, place = a[i, j], j
        out[i] = place
    return out


@compiled
def argmax_rows_in_two_passes(a: Any, out: Any) -> Any:
    for i in prange(a.shape[0]):
        best = a[i, 0]
        for j in range(1, a.shape[1]):
            best = max(best, a[i, j])
        place = 0
        while a[i, place] != best:
            place += 1
        out[i] = place
    return out


@compiled
def sum_and_max(x: Any) -> Any:
    total, most = np.float32(0), x[0]
    for i in prange(x.shape[0]):
        total += x[i]
        most = max(most, x[i])
    return total, most


@numba.njit(inline="always")
def equal(lhs: Any, rhs: Any) -> bool:
    for n in range(len(lhs)):  # noqa: SIM110
        if lhs[n] != rhs[n]:
            return False
    return True


@compiled
def linkage(new: Any, known: Any, ids: Any, weights: Any, measures: Any) -> Any:
    for n in prange(new.shape[0]):
        person = new[n]
        best_id, best_weight, best_measure = np.int64(-1), -np.inf, 0
        for e in range(known.shape[0]):
            other = known[e]
            last, first = equal(person.last, other.last), equal(person.first, other.first)
            city, postcode = equal(person.city, other.city), person.postcode == other.postcode
            year, month = person.year == other.year, person.month == other.month
            day = person.day == other.day
            weight = LAST[0] if last else LAST[1]
            weight += FIRST[0] if first else FIRST[1]
            weight += CITY[0] if city else CITY[1]
            weight += POSTCODE[0] if postcode else POSTCODE[1]
            weight += YEAR[0] if year else YEAR[1]
            weight += MONTH[0] if month else MONTH[1]
            weight += DAY[0] if day else DAY[1]
            measure = int(last) + int(first) + int(city) + int(postcode)
            measure += int(year) + int(month) + int(day)
            if person.id == other.id:
                measure = SAME_ID
            if best_measure == SAME_ID and measure != SAME_ID:
                continue
            if weight > best_weight or (measure == SAME_ID and best_measure != SAME_ID):
                best_id, best_weight, best_measure = other.id, weight, measure
        ids[n], weights[n], measures[n] = best_id, best_weight, best_measure
    return ids, weights, measures
