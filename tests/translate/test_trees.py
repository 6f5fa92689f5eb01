from __future__ import annotations

import numpy as np

from mdtensor.translate.scalar import cast, const, index_of, param
from mdtensor.translate.trees import (
    dims_in,
    evaluate,
    nodes,
    params_in,
    rewritten,
    substitute,
    with_dims,
)

A, B, Z = param(0, "f4"), param(1, "f4"), param(0, "c8")


def test_casts_of_complex_and_huge_values_are_silent() -> None:
    z = cast(cast(Z, "f4"), "i1")
    assert evaluate(z, [np.complex64(3 + 4j)]) == 3
    assert evaluate(cast(Z, "?"), [np.complex64(4j)])


def test_substitute_replaces_parameters() -> None:
    assert repr(substitute(A * B + 1, [B, const(2, "f4")])) == "((p1 * 2) + 1)"
    assert params_in(B * A + B) == (1, 0)
    assert dims_in(with_dims(A + index_of("i"), {"i": "j"})) == ("j",)


def test_substitute_leaves_parameters_that_a_mapping_lacks() -> None:
    assert repr(substitute(A * B, {1: A + 1})) == "(p0 * (p0 + 1))"


def test_a_rule_meets_arguments_first_and_a_shared_node_once() -> None:
    shared = A * B
    met: list[str] = []
    result = rewritten(shared + np.exp(shared), lambda node: met.append(node.op) or node)
    assert met == ["param", "param", "mul", "exp", "add"]
    assert result.args[0] is shared
    assert result.args[1].args[0] is shared


def test_what_a_rule_changes_stays_shared() -> None:
    shared = A * B
    result = rewritten(shared + np.exp(shared), lambda node: B if node == A else node)
    assert repr(result) == "((p1 * p1) + exp((p1 * p1)))"
    assert result.args[0] is result.args[1].args[0]


def test_nodes_come_before_their_arguments() -> None:
    assert [node.op for node in nodes(A * B + 1)] == ["add", "mul", "param", "param", "const"]
