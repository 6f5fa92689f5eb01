"""Which nodes of a graph are computed, and which of these together."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.api.frameworks.torch_graphs.graph_groups import PlannedCalls, planned_calls
from tests.api.frameworks.torch_graphs.graph_stand_in import DType, Graph, Node, Value

RANDOM = np.random.default_rng(28)


def labels(graph: Graph) -> list[str]:
    return [each.group.label for each in planned_calls(graph.nodes)[0]]


def computed(planned: PlannedCalls, **tensors: Any) -> Any:
    operands = [
        view.of(tensors[planned.sources[view.tensor].name]) for view in planned.group.operands
    ]
    return planned.group(*operands)


def layer(graph: Graph, x: Node, rows: tuple[int, ...], n: int) -> Node:
    """A linear layer of torch's on several axes of rows."""
    k = x.meta["val"].shape[-1]
    weight, bias = graph.given(n, k), graph.given(n)
    flat = graph.view("view", x, list(rows), shape=(int(np.prod(rows)), k))
    turned = graph.view("t", weight, shape=(k, n))
    product = graph.call("addmm", bias, flat, turned, shape=(int(np.prod(rows)), n))
    return graph.view("view", product, [*rows, n], shape=(*rows, n))


def test_a_layer_with_its_activation_is_one_group() -> None:
    graph = Graph()
    x = graph.given(2, 3, 4)
    found = graph.call("gelu", layer(graph, x, (2, 3), 5), shape=(2, 3, 5))
    graph.returns(graph.call("relu", found, shape=(2, 3, 5)))
    (planned,), refused = planned_calls(graph.nodes)
    assert planned.group.label == "addmm + gelu + relu"
    assert not refused
    # Rows are not made one axis, which would have to be two for what follows.
    assert [spec.shape for spec in planned.specs] == [(5,), (2, 3, 4), (4, 5)]
    arrays = {node.name: RANDOM.standard_normal(node.meta["val"].shape) for node in planned.sources}
    (value,) = computed(planned, **{name: each.astype("f4") for name, each in arrays.items()})
    bias, image, weight = (arrays[node.name] for node in planned.sources)
    due = image @ weight.T + bias
    np.testing.assert_allclose(value > 0, due > 0)


def test_what_is_read_twice_is_a_group_of_its_own() -> None:
    graph = Graph()
    a, b = graph.given(3, 4), graph.given(4, 5)
    product = graph.call("mm", a, b, shape=(3, 5))
    found = graph.call("relu", product, shape=(3, 5))
    graph.returns(product, found)
    assert labels(graph) == ["mm", "relu"]


def test_a_group_combines_once() -> None:
    graph = Graph()
    a, b = graph.given(3, 4), graph.given(4, 5)
    scaled = graph.call("div", graph.call("mm", a, b, shape=(3, 5)), 2.0, shape=(3, 5))
    graph.returns(graph.call("_softmax", scaled, 1, False, shape=(3, 5)))
    assert labels(graph) == ["mm + div", "softmax"]
    graph = Graph()
    x = graph.given(3, 5)
    squares = graph.call("mean", graph.call("square", x, shape=(3, 5)), [1], True, shape=(3, 1))
    graph.returns(graph.call("mul", x, graph.call("rsqrt", squares, shape=(3, 1)), shape=(3, 5)))
    assert labels(graph) == ["square + mean + rsqrt + mul"]


def test_copies_and_parts_are_read_where_they_lie() -> None:
    graph = Graph()
    whole = graph.given(2, 3, 12)
    split = graph.call("split", whole, 4, -1, shape=[(2, 3, 4)] * 3)
    parts = []
    for n in range(2):
        part = graph.taken(split, n)
        part.meta["val"] = type(part.meta["val"])((2, 3, 4), strides=(36, 12, 1))
        heads = graph.view("view", part, [2, 3, 2, 2], shape=(2, 3, 2, 2))
        turned = graph.view("transpose", heads, 1, 2, shape=(2, 2, 3, 2))
        copied = graph.call("clone", turned, shape=(2, 2, 3, 2))
        parts.append(graph.view("_unsafe_view", copied, [4, 3, 2], shape=(4, 3, 2)))
    turned = graph.view("transpose", parts[1], 1, 2, shape=(4, 2, 3))
    scores = graph.call("bmm", parts[0], turned, shape=(4, 3, 3))
    apart = graph.view("view", scores, [2, 2, 3, 3], shape=(2, 2, 3, 3))
    graph.returns(graph.call("div", apart, 2.0, shape=(2, 2, 3, 3)))
    (planned,) = (p for p in planned_calls(graph.nodes)[0] if "bmm" in p.group.label)
    # The second factor's axes change places behind its copy: that one is read.
    assert planned.group.label == "bmm + div"
    assert planned.sources[0] is whole
    assert planned.specs[0].strides == (36, 2, 12, 1)


def test_what_a_copy_is_of_can_be_read() -> None:
    graph = Graph()
    a, b = graph.given(3, 4), graph.given(4, 5)
    half = graph.call("mul", graph.call("mm", a, b, shape=(3, 5)), 0.5, shape=(3, 5))
    copied = graph.call("clone", half, shape=(3, 5))
    graph.returns(copied, graph.call("amax", copied, [1], shape=(3,)))
    found = {each.group.label: each for each in planned_calls(graph.nodes)[0]}
    # Read inside of a group, it would be computed again, and round otherwise.
    assert list(found) == ["mm + mul", "clone", "amax"]
    assert found["amax"].sources == found["clone"].sources == (half,)


def test_bits_in_another_type_are_no_view_of_elements() -> None:
    graph = Graph()
    bits = graph.given(3, 4)
    other = graph.view("view", bits, "torch.float32", shape=(3, 4))
    other.target = type(other.target)("aten.view.dtype")
    doubled = graph.call("mul", other, 2.0, shape=(3, 4))
    graph.returns(doubled)
    (planned,) = planned_calls(graph.nodes)[0]
    assert planned.sources == (other,)


def test_nothing_is_passed_by_where_tensors_are_written() -> None:
    graph = Graph()
    a, b = graph.given(3, 4), graph.given(3, 4)
    copied = graph.call("clone", a, shape=(3, 4))
    negative = graph.call("neg", b, shape=(3, 4))
    graph.writes(a, b)
    graph.returns(graph.call("add", copied, negative, shape=(3, 4)))
    found = {each.group.label: each for each in planned_calls(graph.nodes)[0]}
    assert list(found) == ["clone", "neg", "add"]
    assert found["add"].sources == (copied, negative)


def test_a_normalisation_by_kept_statistics_joins_a_convolution() -> None:
    graph = Graph()
    image, flt = graph.given(1, 2, 5, 5), graph.given(3, 2, 3, 3)
    each = [graph.given(3) for _ in range(4)]
    numbers = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    out = (1, 3, 3, 3)
    convolved = graph.call("convolution", image, flt, None, *numbers, shape=out)
    name = "_native_batch_norm_legit_no_training"
    several = graph.call(name, convolved, *each, 0.1, 1e-5, shape=[out, (0,), (0,)])
    graph.returns(graph.call("relu", graph.taken(several, 0), shape=out))
    (planned,), _ = planned_calls(graph.nodes)
    assert planned.group.label == "convolution + native_batch_norm_legit_no_training + relu"
    assert [spec.shape for spec in planned.specs[2:]] == [(3, 1, 1)] * 4


def test_converted_statistics_are_results_of_the_normalisation() -> None:
    graph = Graph()
    short = DType("torch.bfloat16")
    image = graph.given(2, 3, 4, 4, dtype=short)
    each = [graph.given(3, dtype=short) for _ in range(4)]
    several = graph.call(
        "_native_batch_norm_legit_functional",
        *(image, *each, True, 0.1, 1e-5),
        shape=[(2, 3, 4, 4), (3,), (3,), (3,), (3,)],
    )
    several.meta["val"][0] = image.meta["val"]  # its statistics are float32
    taken = [graph.taken(several, n) for n in range(5)]
    kept = [graph.call("_to_copy", each, shape=(3,), dtype=short) for each in taken[3:]]
    for node in kept:
        node.meta["val"] = Value((3,), short)
    graph.returns(*taken[:3], *kept)
    (planned,), refused = planned_calls(graph.nodes)
    assert not refused
    assert planned.outputs == (*taken[:3], *kept)
    assert [str(spec.dtype) for spec in planned.results] == [
        *("bfloat16", "float32", "float32", "bfloat16", "bfloat16")
    ]
    # The sums, the squares, all numbers of a channel, the elements.
    assert len(planned.group.program(planned.specs).steps) == 4


def test_the_first_gradient_of_several_may_be_none() -> None:
    graph = Graph()
    image, flt, grad = graph.given(1, 2, 4, 4), graph.given(3, 2, 3, 3), graph.given(1, 3, 2, 2)
    numbers = ([3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, True])
    several = graph.call(
        "convolution_backward", grad, image, flt, *numbers, shape=[(), (3, 2, 3, 3), (3,)]
    )
    several.meta["val"][0] = None
    graph.returns(graph.taken(several, 1), graph.taken(several, 2))
    assert labels(graph) == ["convolution_backward"]


def test_what_kernels_do_not_take_stays_torchs() -> None:
    graph = Graph()
    names = "complex64", "int64"
    complexes, whole = (graph.given(3, dtype=DType(f"torch.{name}")) for name in names)
    empty, fine = graph.given(0), graph.given(3)
    graph.call("abs", complexes, shape=(3,))
    graph.call("abs", whole, shape=(3,))
    graph.call("relu", empty, shape=(0,))
    graph.call("add", fine, whole, shape=(3,))
    graph.call("mystery", fine, shape=(3,))
    assert planned_calls(graph.nodes) == ([], [])
    wrong = graph.call("relu", fine, shape=(4,))
    rounded = graph.call("div", fine, 2.0, shape=(3,), rounding_mode="floor")
    planned, refused = planned_calls(graph.nodes)
    assert planned == []
    assert [each.node for each in refused] == [wrong, rounded]
    assert "where torch has" in refused[0].reason
    assert "rounding_mode" in refused[1].reason


def test_nodes_that_can_only_be_computed_apart() -> None:
    graph = Graph()
    x = graph.given(1, 1, 4, 4)
    pooled = graph.call("avg_pool2d", x, [2, 2], shape=(1, 1, 2, 2))
    graph.returns(graph.call("relu", pooled, shape=(1, 1, 2, 2)))
    assert labels(graph) == ["avg_pool2d", "relu"]
