"""Einsum strings of NumPy's products: `matmul`, `dot` and `inner`, by shapes."""

from __future__ import annotations

from mdtensor.errors import ShapeError

Shape = tuple[int, ...]


def text_of_matmul(left: Shape, right: Shape) -> str:
    """The einsum string of `numpy.matmul`; ShapeError for incompatible shapes.

    >>> text_of_matmul((7, 2, 3), (3,))
    '...ij,j->...i'
    """
    if not left or not right:
        raise ShapeError(
            "matmul multiplies no numbers",
            notes=[_note(left, right)],
            hint="a * b, or mdtensor.dot(a, b)",
        )
    check_summed("matmul", left, right, left[-1], right[-1 if len(right) == 1 else -2])
    rows, columns = "i" * (len(left) > 1), "k" * (len(right) > 1)
    # Axes that operands of one axis lack have no stack either.
    stacks = ["..." * (len(shape) > 2) for shape in (left, right)]
    return f"{stacks[0]}{rows}j,{stacks[1]}j{columns}->{max(stacks)}{rows}{columns}"


def text_of_dot(left: Shape, right: Shape) -> str:
    """The einsum string of `numpy.dot`; ShapeError for incompatible shapes.

    >>> text_of_dot((2, 3), (5, 3, 4))
    'aS,bSc->abc'
    """
    if not left or not right:
        return text_of_inner(left, right)
    check_summed("dot", left, right, left[-1], right[-1 if len(right) == 1 else -2])
    rows = letters(len(left) - 1)
    columns = letters(len(right) - 1, len(rows))
    return f"{rows}S,{columns[:-1]}S{columns[-1:]}->{rows}{columns}"


def text_of_inner(left: Shape, right: Shape) -> str:
    """The einsum string of `numpy.inner`; ShapeError for incompatible shapes.

    >>> text_of_inner((2, 3), (4, 3))
    'aS,bS->ab'
    """
    summed = "S" * bool(left and right)
    if summed:
        check_summed("inner", left, right, left[-1], right[-1])
    rows = letters(len(left) - len(summed))
    columns = letters(len(right) - len(summed), len(rows))
    return f"{rows}{summed},{columns}{summed}->{rows}{columns}"


def check_summed(name: str, left: Shape, right: Shape, of_left: int, of_right: int) -> None:
    """Raises ShapeError if the contracted extents differ."""
    if of_left != of_right:
        raise ShapeError(
            f"{name} sums over {of_left} elements of a but {of_right} of b",
            notes=[_note(left, right)],
        )


def letters(count: int, first: int = 0) -> str:
    """`count` distinct index letters of an einsum string; S is reserved."""
    every = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRTUVWXYZ"
    if first + count > len(every):
        raise ShapeError(f"the result has more than {len(every)} axes")
    return every[first : first + count]


def _note(left: Shape, right: Shape) -> str:
    return f"a: {left}    b: {right}"
