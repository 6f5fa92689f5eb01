"""Kernels in the style of PolyBench as plain Python nests, with small arguments to run them on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Arguments = tuple[object, ...]


def gemm(alpha, beta, C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] *= beta
        for k in range(A.shape[1]):
            for j in range(C.shape[1]):
                C[i, j] += alpha * A[i, k] * B[k, j]


def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    n = len(w)
    for i in range(n):
        for j in range(n):
            A[i, j] = A[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    for i in range(n):
        for j in range(n):
            x[i] = x[i] + beta * A[j, i] * y[j]
    for i in range(n):
        x[i] = x[i] + z[i]
    for i in range(n):
        for j in range(n):
            w[i] = w[i] + alpha * A[i, j] * x[j]


def gesummv(alpha, beta, A, B, tmp, x, y):
    for i in range(A.shape[0]):
        tmp[i] = 0.0
        y[i] = 0.0
        for j in range(A.shape[1]):
            tmp[i] = A[i, j] * x[j] + tmp[i]
            y[i] = B[i, j] * x[j] + y[i]
        y[i] = alpha * tmp[i] + beta * y[i]


def atax(A, x, y, tmp):
    m, n = A.shape
    for i in range(n):
        y[i] = 0
    for i in range(m):
        tmp[i] = 0.0
        for j in range(n):
            tmp[i] = tmp[i] + A[i, j] * x[j]
        for j in range(n):
            y[j] = y[j] + A[i, j] * tmp[i]


def bicg(A, s, q, p, r):
    n, m = A.shape
    for i in range(m):
        s[i] = 0
    for i in range(n):
        q[i] = 0.0
        for j in range(m):
            s[j] = s[j] + r[i] * A[i, j]
            q[i] = q[i] + A[i, j] * p[j]


def doitgen(A, C4, out):
    nr, nq, np_ = A.shape
    for r in range(nr):
        for q in range(nq):
            for p in range(np_):
                out[r, q, p] = 0.0
                for s in range(np_):
                    out[r, q, p] += A[r, q, s] * C4[s, p]
    for r in range(nr):
        for q in range(nq):
            for p in range(np_):
                A[r, q, p] = out[r, q, p]


def two_mm(alpha, beta, tmp, A, B, C, D):
    ni, nj = tmp.shape
    for i in range(ni):
        for j in range(nj):
            tmp[i, j] = 0.0
            for k in range(A.shape[1]):
                tmp[i, j] += alpha * A[i, k] * B[k, j]
    for i in range(ni):
        for j in range(D.shape[1]):
            D[i, j] *= beta
            for k in range(nj):
                D[i, j] += tmp[i, k] * C[k, j]


def syrk(alpha, beta, C, A):
    n, m = A.shape
    for i in range(n):
        for j in range(i + 1):
            C[i, j] *= beta
        for k in range(m):
            for j in range(i + 1):
                C[i, j] += alpha * A[i, k] * A[j, k]


def trmm(alpha, A, B):
    m, n = B.shape
    for i in range(m):
        for j in range(n):
            for k in range(i + 1, m):
                B[i, j] += A[k, i] * B[k, j]
            B[i, j] = alpha * B[i, j]


def jacobi_1d(A, B):
    for i in range(1, len(A) - 1):
        B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
    for i in range(1, len(A) - 1):
        A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1])


def heat_3d(A, B):
    n = len(A)
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            for k in range(1, n - 1):
                B[i, j, k] = (
                    0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                    + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                    + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                    + A[i, j, k]
                )


def fdtd_2d(ex, ey, hz, fict, t):
    nx, ny = ex.shape
    for j in range(ny):
        ey[0, j] = fict[t]
    for i in range(1, nx):
        for j in range(ny):
            ey[i, j] = ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j])
    for i in range(nx):
        for j in range(1, ny):
            ex[i, j] = ex[i, j] - 0.5 * (hz[i, j] - hz[i, j - 1])
    for i in range(nx - 1):
        for j in range(ny - 1):
            hz[i, j] = hz[i, j] - 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


def floyd_warshall_step(shorter, path, k):
    n = len(path)
    for i in range(n):
        for j in range(n):
            through = path[i, k] + path[k, j]
            shorter[i, j] = path[i, j]
            if through < path[i, j]:
                shorter[i, j] = through


def min_plus(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = np.inf
            for k in range(A.shape[1]):
                C[i, j] = min(C[i, j], A[i, k] + B[k, j])


def covariance(data, cov, mean):
    n, m = data.shape
    for j in range(m):
        mean[j] = 0.0
        for i in range(n):
            mean[j] += data[i, j]
        mean[j] /= n
    for i in range(n):
        for j in range(m):
            data[i, j] -= mean[j]
    for i in range(m):
        for j in range(i, m):
            cov[i, j] = 0.0
            for k in range(n):
                cov[i, j] += data[k, i] * data[k, j]
            cov[i, j] /= n - 1.0
            cov[j, i] = cov[i, j]


def correlation_deviations(data, mean, stddev, eps):
    n, m = data.shape
    for j in range(m):
        stddev[j] = 0.0
        for i in range(n):
            stddev[j] += (data[i, j] - mean[j]) * (data[i, j] - mean[j])
        stddev[j] = math.sqrt(stddev[j] / n)
        stddev[j] = 1.0 if stddev[j] <= eps else stddev[j]


def softmax(x, y):
    n, m = x.shape
    for i in range(n):
        largest = -np.inf
        for j in range(m):
            largest = max(largest, x[i, j])
        total = 0.0
        for j in range(m):
            total += np.exp(x[i, j] - largest)
        for j in range(m):
            y[i, j] = np.exp(x[i, j] - largest) / total


def conv2d_bias(inp, weights, bias, out):
    h, w, c_out = out.shape
    k, _, c_in, _ = weights.shape
    for i in range(h):
        for j in range(w):
            for c in range(c_out):
                total = 0.0
                for r in range(k):
                    for s in range(k):
                        for d in range(c_in):
                            total += inp[i + r, j + s, d] * weights[r, s, d, c]
                out[i, j, c] = max(total + bias[c], 0.0)


def spmv_ell(values, columns, x, y):
    for i in range(len(y)):
        y[i] = 0.0
        for k in range(values.shape[1]):
            y[i] += values[i, k] * x[columns[i, k]]


def wave(u, before, after):
    n = len(u)
    for i in range(n):
        left = u[i - 1] if i > 0 else 0.0
        right = u[i + 1] if i < n - 1 else 0.0
        after[i] = 2 * u[i] - before[i] + 0.25 * (left - 2 * u[i] + right)


def horner(coefficients, x, y):
    for i in range(len(x)):
        value = 0.0
        for c in range(len(coefficients)):
            value = value * x[i] + coefficients[c]
        y[i] = value


def lower_triangle_sums(A, s):
    for i in range(len(s)):
        total = 0.0
        for j in range(i + 1):
            total += A[i, j]
        s[i] = total


def clipped_counts(x, low, high, counts):
    counts[0] = 0
    counts[1] = 0
    for i in range(len(x)):
        if x[i] < low:
            counts[0] += 1
        elif x[i] > high:
            counts[1] += 1


def steps_in_time(u, v):
    for _ in range(3):
        for i in range(1, len(u) - 1):
            v[i] = u[i - 1] + u[i + 1]
        for i in range(1, len(u) - 1):
            u[i] = v[i]


def _arrays(seed: int) -> Callable[..., np.ndarray]:
    rng = np.random.default_rng(seed)
    return lambda *shape: rng.standard_normal(shape)


def cases() -> list[tuple[Callable[..., None], Arguments]]:
    """Every kernel with arguments of awkward sizes."""
    r = _arrays(0)
    whole = np.random.default_rng(1)
    return [
        (gemm, (1.5, 1.2, r(5, 7), r(5, 3), r(3, 7))),
        (gemver, (1.5, 1.2, r(5, 5), r(5), r(5), r(5), r(5), r(5), r(5), r(5), r(5))),
        (gesummv, (1.5, 1.2, r(5, 5), r(5, 5), r(5), r(5), r(5))),
        (atax, (r(4, 7), r(7), r(7), r(4))),
        (bicg, (r(4, 7), r(7), r(4), r(7), r(4))),
        (doitgen, (r(2, 3, 4), r(4, 4), r(2, 3, 4))),
        (two_mm, (1.5, 1.2, r(3, 4), r(3, 5), r(5, 4), r(4, 2), r(3, 2))),
        (syrk, (1.5, 1.2, r(5, 5), r(5, 3))),
        (trmm, (1.5, r(4, 4), r(4, 5))),
        (jacobi_1d, (r(9), r(9))),
        (heat_3d, (r(5, 5, 5), r(5, 5, 5))),
        (fdtd_2d, (r(5, 6), r(5, 6), r(5, 6), r(3), 1)),
        (floyd_warshall_step, (r(5, 5), abs(r(5, 5)), 2)),
        (min_plus, (r(3, 5), r(3, 4), r(4, 5))),
        (covariance, (r(7, 4), r(4, 4), r(4))),
        (correlation_deviations, (r(7, 4), r(4), r(4), 0.1)),
        (softmax, (r(3, 5), r(3, 5))),
        (conv2d_bias, (r(6, 5, 2), r(3, 3, 2, 4), r(4), r(4, 3, 4))),
        (spmv_ell, (r(4, 3), whole.integers(0, 6, (4, 3)), r(6), r(4))),
        (wave, (r(7), r(7), r(7))),
        (horner, (r(4), r(6), r(6))),
        (lower_triangle_sums, (r(5, 5), r(5))),
        (clipped_counts, (r(20), -0.5, 0.5, whole.integers(0, 5, 2))),
        (steps_in_time, (r(8), r(8))),
    ]
