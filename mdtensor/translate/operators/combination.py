"""Users' specification of how a dim is combined: `cc`, `pw("add")`, `ps("max")`."""

from __future__ import annotations

from mdtensor.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Combination:
    """The combination of one dim: `cc` keeps it, `pw(op)` reduces, `ps(op)` scans.

    The kinds are those of 002, section 4.2.2, Examples 1 and 2, and appendix .2; `operator` is as
    `combine_operators.operator_of` takes it.

    >>> cc, pw("add"), ps(max)
    (cc, pw('add'), ps(max))
    """

    kind: str
    operator: object = None

    def __repr__(self) -> str:
        if self.kind == "cc":
            return "cc"
        name = getattr(self.operator, "__name__", None) or repr(self.operator)
        return f"{self.kind}({name})"


cc = Combination("cc")


def pw(operator: object) -> Combination:
    """Point-wise combination: the dim is reduced to one element.

    >>> pw("add")
    pw('add')
    """
    return Combination("pw", operator)


def ps(operator: object) -> Combination:
    """Prefix sum: the dim stays, and each element is combined with all before it.

    >>> ps("max")
    ps('max')
    """
    return Combination("ps", operator)
