"""Merging of dims: two dims that are contiguous in every access become one."""

from __future__ import annotations

from mdtensor.dataclass import dataclass


@dataclass(slots=True)
class Merging:
    """The state of merging: the remaining dims, and the strides of every access.

    `strides` are those of every access, `fixed` the dims whose index some expression takes. Where
    elements are combined `in_order`, so are the reduced dims.
    """

    labels: list[str]
    extents: list[int]
    reduced: list[bool]
    strides: list[list[int]]
    fixed: set[int]
    in_order: bool

    def merged(self) -> list[int]:
        """Merge pairs of dims until none can be merged; return the remaining dims.

        Dim a (outer) and b (inner) merge where each access has stride(a) = stride(b) · extent(b)
        and both are combined alike; a contiguous element-wise computation becomes one loop. Where
        the order of combination counts, no reduced dim lies between them.
        """
        left = list(range(len(self.labels)))
        while (pair := self._pair([d for d in left if d not in self.fixed], left)) is not None:
            outer, inner = pair
            self.extents[inner] *= self.extents[outer]
            self.labels[inner] = self.labels[outer] + self.labels[inner]
            left.remove(outer)
        return left

    def _pair(self, free: list[int], left: list[int]) -> tuple[int, int] | None:
        for outer in free:
            for inner in free:
                extent = self.extents[inner]
                for strides in self.strides:
                    if strides[outer] != strides[inner] * extent:
                        break
                else:
                    if outer != inner and self._is_alike(outer, inner, left):
                        return outer, inner
        return None

    def _is_alike(self, outer: int, inner: int, left: list[int]) -> bool:
        if self.reduced[outer] != self.reduced[inner]:
            return False
        if not (self.reduced[outer] and self.in_order):
            return True
        order = [d for d in left if self.reduced[d]]
        return order.index(inner) == order.index(outer) + 1
