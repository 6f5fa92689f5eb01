"""Convolutions of deep learning: multi-channel, depthwise, of capsules. NHWC, KRSC, NPQK."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.kernels.kernel import Kernel, compiled_by_torch, tensor_of, without_slow_loops, xla
from bench.workload import CALL, Arrays, Call, Outs
from mdtensor.specs import TensorSpec

_CAPSULE = 4


@dataclass(frozen=True)
class Convolution:
    """Extents of a convolution: images, channels, filters, and how windows move."""

    n: int
    h: int
    w: int
    c: int
    k: int
    r: int
    s: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def p(self) -> int:
        """Rows of the result."""
        return (self.h + 2 * self.padding - self.r) // self.stride + 1

    @property
    def q(self) -> int:
        """Columns of the result."""
        return (self.w + 2 * self.padding - self.s) // self.stride + 1

    @property
    def reduction(self) -> int:
        """Products in a sum."""
        return self.r * self.s * self.c // self.groups

    @property
    def points(self) -> int:
        """Products in all."""
        return self.n * self.p * self.q * self.k * self.reduction

    @property
    def is_product(self) -> bool:
        """Whether it is a product of two matrices as they lie in memory."""
        return (self.r, self.s, self.stride, self.padding, self.groups) == (1, 1, 1, 0, 1)

    def __str__(self) -> str:
        image, window = f"{self.n}x{self.h}x{self.w}x{self.c}", f"{self.k}x{self.r}x{self.s}"
        return f"{image}-{window}" + (f"-s{self.stride}" if self.stride > 1 else "")


def convolution(label: str, size: Convolution, floor: float | None = None) -> Kernel:
    """A multi-channel convolution (MCC), depthwise with as many groups as channels."""
    flops = 2 * size.points
    says = {
        "mdtensor": functools.partial(_mdtensor, size),
        "numpy": functools.partial(_numpy, size),
        "numba": functools.partial(_numba, size),
        "torch": functools.partial(_torch, size),
        "jax": functools.partial(_jax, size),
    }
    return Kernel(
        name=f"{label}-{size}",
        formula=f"img NHWC, flt KRSC -> NPQK, stride {size.stride}, padding {size.padding}",
        inputs=(
            TensorSpec.of((size.n, size.h, size.w, size.c)),
            TensorSpec.of((size.k, size.r, size.s, size.c // size.groups)),
        ),
        outputs=(TensorSpec.of((size.n, size.p, size.q, size.k)),),
        reduction=size.reduction,
        flops=flops,
        exact=functools.partial(_exact, size),
        says=without_slow_loops(says, flops),
        floor=floor,
    )


def capsules(label: str, size: Convolution, floor: float | None = None) -> Kernel:
    """A convolution of capsules (MCC_Capsule): channels are matrices, multiplied as such."""
    side = _CAPSULE
    flops = 2 * size.points * side**3
    says = {
        "mdtensor": functools.partial(_capsules_mdtensor, size),
        "numpy": functools.partial(_capsules_numpy, size),
        "numba": functools.partial(_capsules_numba, size),
        "torch": functools.partial(_capsules_torch, size),
        "jax": functools.partial(_capsules_jax, size),
    }
    return Kernel(
        name=f"{label}-{size}-{side}x{side}",
        formula=f"img NHWCik, flt KRSCkj -> NPQKij, stride {size.stride}",
        inputs=(
            TensorSpec.of((size.n, size.h, size.w, size.c, side, side)),
            TensorSpec.of((size.k, size.r, size.s, size.c, side, side)),
        ),
        outputs=(TensorSpec.of((size.n, size.p, size.q, size.k, side, side)),),
        reduction=size.reduction * side,
        flops=flops,
        exact=functools.partial(_capsules_exact, size),
        says=without_slow_loops(says, flops),
        floor=floor,
    )


def _windows(size: Convolution, img: np.ndarray) -> np.ndarray:
    """The windows as a view: n, p, q, c, further axes of a capsule, r, s."""
    pads = [(0, 0), (size.padding, size.padding), (size.padding, size.padding)]
    padded = np.pad(img, pads + [(0, 0)] * (img.ndim - 3)) if size.padding else img
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size.r, size.s), axis=(1, 2))
    return windows[:, :: size.stride, :: size.stride]


def _exact(size: Convolution, img: np.ndarray, flt: np.ndarray) -> np.ndarray:
    if size.groups > 1:
        return np.einsum("npqcrs,crs->npqc", _windows(size, img), flt[..., 0])
    out = np.empty((size.n, size.p, size.q, size.k))
    for image, result in zip(img, out, strict=True):
        windows = _windows(size, image[None])[0]
        result[...] = np.tensordot(windows, flt, ((3, 4, 2), (1, 2, 3)))
    return out


def _capsules_exact(size: Convolution, img: np.ndarray, flt: np.ndarray) -> np.ndarray:
    out = np.empty((size.n, size.p, size.q, size.k, *img.shape[-2:]))
    for image, result in zip(img, out, strict=True):
        windows = _windows(size, image[None])[0]
        product = np.tensordot(windows, flt, ((5, 6, 2, 4), (1, 2, 3, 4)))  # p, q, i, k, j
        result[...] = product.transpose(0, 1, 3, 2, 4)
    return out


def _mdtensor(size: Convolution, operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    import mdtensor as mdt

    (img, flt), (out,) = operands, outs
    options = {"stride": size.stride, "padding": size.padding, "groups": size.groups}
    conv: Any = mdt.conv
    return {CALL: lambda: conv(img, flt, **options, out=out)}


def _numpy(size: Convolution, operands: list[np.ndarray], outs: Outs) -> Mapping[str, Call]:
    (img, flt), (out,) = operands, outs
    if size.is_product:
        pixels, weights = img.reshape(-1, size.c), flt.reshape(size.k, size.c).T
        result = None if out is None else out.reshape(-1, size.k)
        shape = size.n, size.p, size.q, size.k
        return {"matmul": lambda: np.matmul(pixels, weights, out=result).reshape(shape)}
    if size.groups > 1:
        weights = flt[..., 0]
        return {
            "einsum": lambda: np.einsum("npqcrs,crs->npqc", _windows(size, img), weights, out=out)
        }

    def tensordot() -> np.ndarray:
        product = np.tensordot(_windows(size, img), flt, ((4, 5, 3), (1, 2, 3)))
        if out is None:
            return product
        np.copyto(out, product)
        return out

    return {"tensordot": tensordot}


def _numba(size: Convolution, operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    if size.groups > 1:
        return {"prange": lambda: loops.depthwise(*operands, *outs, size.padding)}
    return {"prange": lambda: loops.convolution(*operands, *outs, size.stride, size.padding)}


def _torch(size: Convolution, operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    img, flt = (torch.from_dlpack(operand) for operand in operands)
    # Views of the same memory are torch's channels_last.
    last = img.permute(0, 3, 1, 2), flt.permute(0, 3, 1, 2)
    first = [operand.contiguous() for operand in last]
    options = {"stride": size.stride, "padding": size.padding, "groups": size.groups}
    conv2d = torch.nn.functional.conv2d
    calls: dict[str, Call] = {
        "conv2d channels_last": lambda: conv2d(*last, **options).permute(0, 2, 3, 1),
        # In torch's own layout; the result is a view in ours.
        "conv2d contiguous": lambda: conv2d(*first, **options).permute(0, 2, 3, 1),
    }
    calls |= compiled_by_torch(
        lambda img, flt: conv2d(
            img.permute(0, 3, 1, 2), flt.permute(0, 3, 1, 2), **options
        ).permute(0, 2, 3, 1),
        img,
        flt,
    )
    if size.is_product:
        pixels, weights = img.reshape(-1, size.c), flt.reshape(size.k, size.c).T
        out = tensor_of(outs[0])
        result = None if out is None else out.view(-1, size.k)
        shape = size.n, size.p, size.q, size.k
        calls["mm"] = lambda: torch.mm(pixels, weights, out=result).view(shape)
    return calls


def _jax(size: Convolution, operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    return {"conv_general_dilated": xla(functools.partial(_jax_convolution, size), operands)}


def _jax_convolution(size: Convolution, img: Any, flt: Any) -> Any:
    lax: Any = importlib.import_module("jax.lax")
    return lax.conv_general_dilated(
        img,
        flt,
        (size.stride, size.stride),
        [(size.padding, size.padding)] * 2,
        dimension_numbers=("NHWC", "OHWI", "NHWC"),
        feature_group_count=size.groups,
    )


def _capsules_mdtensor(
    size: Convolution, operands: list[np.ndarray], outs: Arrays
) -> Mapping[str, Call]:
    import mdtensor as mdt

    (img, flt), (out,) = operands, outs
    conv: Any = mdt.conv_capsule
    return {CALL: lambda: conv(img, flt, stride=size.stride, out=out)}


def _capsules_numpy(
    size: Convolution, operands: list[np.ndarray], outs: Outs
) -> Mapping[str, Call]:
    (img, flt), (out,) = operands, outs

    def tensordot() -> np.ndarray:
        product = np.tensordot(_windows(size, img), flt, ((6, 7, 3, 5), (1, 2, 3, 4)))
        product = product.transpose(0, 1, 2, 4, 3, 5)
        if out is None:
            return product
        np.copyto(out, product)
        return out

    return {"tensordot": tensordot}


def _capsules_numba(
    size: Convolution, operands: list[np.ndarray], outs: Arrays
) -> Mapping[str, Call]:
    from bench.kernels import loops

    return {"prange": lambda: loops.capsules(*operands, *outs, size.stride)}


def _capsules_torch(
    size: Convolution, operands: list[np.ndarray], outs: Arrays
) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    img, flt = (torch.from_dlpack(operand) for operand in operands)
    conv2d = torch.nn.functional.conv2d
    n, k, c, side = size.n, size.k, size.c, _CAPSULE

    def as_channels(img: Any, flt: Any, memory_format: Any) -> Any:
        # Rows of capsules are more images, columns more channels.
        rows = img.permute(0, 4, 3, 5, 1, 2).reshape(n * side, c * side, size.h, size.w)
        columns = flt.permute(0, 5, 3, 4, 1, 2).reshape(k * side, c * side, size.r, size.s)
        images = rows.contiguous(memory_format=memory_format)
        result = conv2d(images, columns.contiguous(memory_format=memory_format), stride=size.stride)
        split = result.view(n, side, k, side, size.p, size.q)
        return split.permute(0, 4, 5, 2, 1, 3)

    def einsum(img: Any, flt: Any) -> Any:
        windows = img.unfold(1, size.r, size.stride).unfold(2, size.s, size.stride)
        return torch.einsum("npqcimrs,krscmj->npqkij", windows, flt)

    def as_matrices(img: Any, flt: Any) -> Any:
        # Windows become rows of a matrix, which torch.compile makes while it copies them.
        windows = img.unfold(1, size.r, size.stride).unfold(2, size.s, size.stride)
        rows = windows.permute(0, 1, 2, 4, 6, 7, 3, 5).reshape(-1, size.r * size.s * c * side)
        columns = flt.permute(1, 2, 3, 4, 0, 5).reshape(size.r * size.s * c * side, k * side)
        return (rows @ columns).view(n, size.p, size.q, side, k, side).transpose(3, 4)

    return {
        # Results are views in our order of axes: the least that torch could do.
        "conv2d channels_last": lambda: as_channels(img, flt, torch.channels_last),
        "conv2d contiguous": lambda: as_channels(img, flt, torch.contiguous_format),
        "einsum": lambda: einsum(img, flt),
        "matmul of windows": lambda: as_matrices(img, flt),
        **compiled_by_torch(as_matrices, img, flt),
    }


def _capsules_jax(
    size: Convolution, operands: list[np.ndarray], outs: Arrays
) -> Mapping[str, Call]:
    n, k, c, side = size.n, size.k, size.c, _CAPSULE

    def as_channels(img: Any, flt: Any) -> Any:
        images = img.transpose(0, 4, 1, 2, 3, 5).reshape(n * side, size.h, size.w, c * side)
        filters = flt.transpose(0, 5, 1, 2, 3, 4).reshape(k * side, size.r, size.s, c * side)
        result = _jax_convolution(size, images, filters)
        split = result.reshape(n, side, size.p, size.q, k, side)
        return split.transpose(0, 2, 3, 4, 1, 5)

    return {"conv_general_dilated": xla(as_channels, operands)}


# 003, figure 3, and 002, figure 89: the first layers of networks. The images of ResNet-50 and
# MobileNet are listed with their padding; VGG-16's without, though its results are 224×224.
_RESNET = functools.partial(Convolution, h=230, w=230, c=3, k=64, r=7, s=7, stride=2)
_VGG = functools.partial(Convolution, h=224, w=224, c=3, k=64, r=3, s=3, padding=1)
_MOBILE = functools.partial(Convolution, h=225, w=225, c=3, k=32, r=3, s=3, stride=2)

FIRST_LAYERS = (
    convolution("mcc", Convolution(1, 7, 7, 512, 512, 3, 3), floor=1.4),
    *(convolution("mcc-resnet", _RESNET(n), floor=1.0) for n in (1, 16)),
    *(convolution("mcc-vgg", _VGG(n), floor=1.0) for n in (1, 16)),
    *(convolution("mcc-mobilenet", _MOBILE(n), floor=1.3) for n in (1, 16)),
)
# VGG-16's image with its padding; its sixteen images would not fit into memory eight times.
CAPSULES = (
    *(capsules("capsule-resnet", _RESNET(n), floor=3.0) for n in (1, 16)),
    capsules("capsule-vgg", Convolution(1, 226, 226, 3, 64, 3, 3), floor=3.0),
    *(capsules("capsule-mobilenet", _MOBILE(n), floor=3.0) for n in (1, 16)),
)
DEPTHWISE = (
    convolution(
        "depthwise", Convolution(1, 112, 112, 32, 32, 3, 3, padding=1, groups=32), floor=1.0
    ),
)

# The distinct convolutions of ResNet-50 after its first one: extent of the image, channels,
# filters, window, stride.
_RESNET_LAYERS = (
    (56, 64, 64, 1, 1),
    (56, 64, 64, 3, 1),
    (56, 64, 256, 1, 1),
    (56, 256, 64, 1, 1),
    (56, 256, 128, 1, 1),
    (56, 128, 128, 3, 2),
    (28, 128, 512, 1, 1),
    (56, 256, 512, 1, 2),
    (28, 512, 128, 1, 1),
    (28, 128, 128, 3, 1),
    (28, 512, 256, 1, 1),
    (28, 256, 256, 3, 2),
    (14, 256, 1024, 1, 1),
    (28, 512, 1024, 1, 2),
    (14, 1024, 256, 1, 1),
    (14, 256, 256, 3, 1),
    (14, 1024, 512, 1, 1),
    (14, 512, 512, 3, 2),
    (7, 512, 2048, 1, 1),
    (14, 1024, 2048, 1, 2),
    (7, 2048, 512, 1, 1),
    (7, 512, 512, 3, 1),
)
RESNET_50 = tuple(
    convolution(f"resnet50-{number:02}", Convolution(1, n, n, c, k, side, side, stride, side // 2))
    for number, (n, c, k, side, stride) in enumerate(_RESNET_LAYERS, start=2)
)

CONVOLUTIONS = (*FIRST_LAYERS, *CAPSULES, *DEPTHWISE, *RESNET_50)
