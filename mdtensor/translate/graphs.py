"""Traversals of directed acyclic graphs that visit each node once, without deep recursion.

A node has `args`, the nodes that it is made of, and a `depth`, the number of its levels.
Expressions (`translate/scalar.py`) are such graphs, since trees grow exponentially with each level
at which a value is used twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeVar

RECURSIVE = 200
"""Levels of graphs that recursive functions look into at most."""


class GraphNode(Protocol):
    """What has arguments of its own kind."""

    @property
    def args(self) -> tuple[Any, ...]:
        """The nodes that it is made of."""
        ...

    @property
    def depth(self) -> int:
        """Number of levels, one more than that of the deepest argument."""
        ...


N = TypeVar("N", bound=GraphNode)
T = TypeVar("T")


def in_order(roots: Sequence[N]) -> list[N]:
    """The nodes below some and these themselves, each object once, behind its arguments."""
    return postorder(roots, attrgetter("args"))


def postorder(roots: Sequence[T], below: Callable[[T], Sequence[T]]) -> list[T]:
    """The objects below some and these themselves, each once, behind those `below` it."""
    found: dict[int, T] = {}
    waiting = [*roots[::-1]]
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        behind = [arg for arg in below(node) if id(arg) not in found]
        if behind:
            waiting.append(node)
            waiting += behind[::-1]
        else:
            found[id(node)] = node
    return [*found.values()]


def count_of_nodes(roots: Sequence[GraphNode]) -> int:
    """The number of nodes below some and of these themselves."""
    waiting, seen = [*roots], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.args
    return len(seen)


def folded(roots: Sequence[N], step: Callable[[N, list[T]], T]) -> list[T]:
    """What `step` makes of some nodes: it gets a node, and what it made of the node's arguments."""
    found: dict[int, T] = {}

    def visit(node: N) -> T:
        key = id(node)
        if key not in found:
            found[key] = step(node, [visit(arg) for arg in node.args])
        return found[key]

    if any(root.depth > RECURSIVE for root in roots):
        for node in in_order(roots):
            visit(node)  # whose arguments were visited before
    return [visit(root) for root in roots]


def are_same(lhs: N, rhs: N, are_alike: Callable[[N, N], bool]) -> bool:
    """Whether two graphs are equal as trees; `are_alike` compares nodes without their arguments."""
    waiting, seen = [(lhs, rhs)], set[tuple[int, int]]()
    while waiting:
        one, other = waiting.pop()
        pair = id(one), id(other)
        if one is other or pair in seen:
            continue
        seen.add(pair)
        if len(one.args) != len(other.args) or not are_alike(one, other):
            return False
        waiting += zip(one.args, other.args, strict=True)
    return True


def text_of_graph(root: N, text: Callable[[N, Sequence[str]], str], longest: int) -> str:
    """The text of a graph in which nodes of one text that are used again have names.

    `text` makes that of a node from those of its arguments. What is longer than `longest` has a
    name too, so that texts take linear time.
    """
    numbers: dict[str, int] = {}  # value numbering: nodes that are written alike are one
    uses: Counter[int] = Counter()
    listed: list[tuple[N, list[int]]] = []

    def number(node: N, args: list[int]) -> int:
        found = numbers.setdefault(text(node, [f"#{arg}" for arg in args]), len(listed))
        if found == len(listed):
            listed.append((node, args))
            uses.update(args)
        return found

    folded([root], number)
    named: list[str] = []
    texts: list[str] = []
    for position, (node, args) in enumerate(listed):
        own = text(node, [texts[arg] for arg in args])
        is_last = position == len(listed) - 1
        if args and not is_last and (uses[position] > 1 or len(own) > longest):
            named.append(f"t{len(named)} = {own}")
            own = f"t{len(named) - 1}"
        texts.append(own)
    return f"let {'; '.join(named)} in {texts[-1]}"


Packed = tuple[list[tuple[Any, list[int]]], list[int]]
"""A row for each node, with the numbers of its arguments; the numbers of the roots."""


def packed(roots: Sequence[N], row: Callable[[N], Any]) -> Packed:
    """A graph as a table, in which nothing is nested, as `pickle` needs it; `row` is a node's own.

    What is shared stays so.
    """
    listed = in_order(roots)
    numbers = {id(node): number for number, node in enumerate(listed)}
    rows = [(row(node), [numbers[id(arg)] for arg in node.args]) for node in listed]
    return rows, [numbers[id(root)] for root in roots]


def unpacked(table: Packed, node: Callable[[Any, tuple[T, ...]], T]) -> list[T]:
    """The roots of a table; `node` makes a node of its row and its arguments."""
    rows, roots = table
    found: list[T] = []
    for row, numbers in rows:
        found.append(node(row, tuple([found[number] for number in numbers])))
    return [found[number] for number in roots]
