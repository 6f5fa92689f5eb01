"""Traversals of expression DAGs that visit each node once, without deep recursion.

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
    """A node of a DAG."""

    @property
    def args(self) -> tuple[Any, ...]:
        """The node's arguments."""
        ...

    @property
    def depth(self) -> int:
        """The number of levels, one more than the deepest argument's."""
        ...


N = TypeVar("N", bound=GraphNode)
T = TypeVar("T")


def in_order(roots: Sequence[N]) -> list[N]:
    """All nodes reachable from the roots, each once, after their arguments."""
    return postorder(roots, attrgetter("args"))


def postorder(roots: Sequence[T], below: Callable[[T], Sequence[T]]) -> list[T]:
    """All objects reachable by `below`, each once, after those below it."""
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
    """The number of distinct nodes reachable from the roots."""
    waiting, seen = [*roots], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.args
    return len(seen)


def folded(roots: Sequence[N], step: Callable[[N, list[T]], T]) -> list[T]:
    """A memoised bottom-up fold of `step` over an expression DAG."""
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
    """Structural equality of two DAGs; `are_alike` compares nodes without arguments."""
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
    """The text of a DAG, with shared nodes in `let` bindings.

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
    """Flatten a DAG to a table for `pickle`; `row` is a node's own data.

    What is shared stays so.
    """
    listed = in_order(roots)
    numbers = {id(node): number for number, node in enumerate(listed)}
    rows = [(row(node), [numbers[id(arg)] for arg in node.args]) for node in listed]
    return rows, [numbers[id(root)] for root in roots]


def unpacked(table: Packed, node: Callable[[Any, tuple[T, ...]], T]) -> list[T]:
    """Rebuild the roots of a packed table; `node` makes a node of a row and arguments."""
    rows, roots = table
    found: list[T] = []
    for row, numbers in rows:
        found.append(node(row, tuple([found[number] for number in numbers])))
    return [found[number] for number in roots]
