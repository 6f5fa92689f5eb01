"""Walks through graphs that share nodes, and through deep ones."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mdtensor.translate.graphs import (
    RECURSIVE,
    are_same,
    count_of_nodes,
    folded,
    in_order,
    packed,
    text_of_graph,
    unpacked,
)


@dataclass(frozen=True, eq=False)
class Sum:
    label: str
    args: tuple[Sum, ...] = ()

    @property
    def depth(self) -> int:
        return 1 + max((arg.depth for arg in self.args), default=0)


@dataclass(frozen=True, eq=False)
class Deep:
    args: tuple[Deep, ...]
    depth: int


def diamonds(levels: int) -> Deep:
    node = Deep((), 1)
    for _ in range(levels):
        node = Deep((node, node), node.depth + 1)
    return node


def told(node: Sum, args: list[str]) -> str:
    return f"{node.label}({' '.join(args)})" if args else node.label


X, Y = Sum("x"), Sum("y")
BOTH = Sum("f", (X, Y))


def test_arguments_come_first_in_the_order_of_a_recursive_walk() -> None:
    root = Sum("g", (BOTH, X, BOTH))
    assert in_order([root]) == [X, Y, BOTH, root]
    assert in_order([Y, root]) == [Y, X, BOTH, root]


@pytest.mark.parametrize("levels", [RECURSIVE - 1, RECURSIVE, 5000])
def test_each_node_is_met_once(levels: int) -> None:
    root, met = diamonds(levels), list[Deep]()

    def paths(node: Deep, args: list[int]) -> int:
        met.append(node)
        return sum(args) or 1

    assert folded([root, root], paths) == [2**levels] * 2
    assert len(met) == count_of_nodes([root]) == levels + 1
    assert are_same(root, diamonds(levels), lambda one, other: True)
    assert not are_same(root, diamonds(levels + 1), lambda one, other: True)


def test_nodes_are_the_same_where_their_labels_are() -> None:
    def alike(one: Sum, other: Sum) -> bool:
        return one.label == other.label

    assert are_same(BOTH, Sum("f", (Sum("x"), Sum("y"))), alike)
    assert not are_same(BOTH, Sum("f", (Y, X)), alike)


def test_tables_keep_what_is_shared() -> None:
    rows, roots = packed([Sum("g", (BOTH, BOTH)), X], lambda node: node.label)
    assert rows == [("x", []), ("y", []), ("f", [0, 1]), ("g", [2, 2])]
    assert roots == [3, 0]
    root, leaf = unpacked((rows, roots), Sum)
    assert root.args[0] is root.args[1]
    assert root.args[0].args[0] is leaf


def test_texts_name_what_is_used_again_and_what_is_long() -> None:
    equal = Sum("f", (Sum("x"), Sum("y")))
    assert text_of_graph(Sum("g", (BOTH, equal)), told, 100) == "let t0 = f(x y) in g(t0 t0)"
    assert text_of_graph(Sum("g", (Sum("half", (BOTH,)), Y)), told, 5) == (
        "let t0 = f(x y); t1 = half(t0) in g(t1 y)"
    )
