"""Problems of md_homs: which dims merge, what is scanned, finished, computed; general problems."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.errors import LoweringError
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Combine, Operator, Pointwise, PrefixSum, named
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import Expr, apply, cast, index_of, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
from mdtensor.translate.trees import dims_in
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex
from tests.kernels.kernel_cases import CASES

ADD = named("add", ["f4"])
X = param(0, "f4")


def on_matrix(
    result: Expr,
    combines: tuple[Combine, Combine] = (CC, CC),
    *,
    shape: tuple[int, int] = (6, 7),
    epilogue: Epilogue | None = None,
) -> MDHom:
    """An md_hom that reads one matrix, element by element."""
    names = ("i", "j")
    index = tuple(map(AffineIndex.of, names))
    kept = [n for n, c in enumerate(combines) if not isinstance(c, Pointwise)]
    last = epilogue.function.results[0] if epilogue else result
    output = BufferSpec("y", TensorSpec.of([shape[n] for n in kept], last.dtype))
    return MDHom(
        tuple(Dim(n, e, c) for n, e, c in zip(names, shape, combines, strict=True)),
        ScalarFunction((np.dtype("f4"),), (result,), "f"),
        (BufferSpec("x", TensorSpec.of(shape, "f4")),),
        (output,),
        (BufferAccess(0, index),),
        (BufferAccess(0, tuple(index[n] for n in kept)),),
        epilogue,
    )


class TestMerging:
    """Neighbouring dims are one, unless something tells them apart."""

    def test_of_an_element_wise_function(self):
        problem = problem_from_md_hom(on_matrix(X * 2))
        assert problem.labels == ("ij",)
        assert problem.extents[0].constant == 42

    @pytest.mark.parametrize("dim", ["i", "j"])
    def test_not_where_the_function_takes_an_index(self, dim):
        assert problem_from_md_hom(on_matrix(X + cast(index_of(dim), "f4"))).labels == ("i", "j")

    @pytest.mark.parametrize("dim", ["i", "j"])
    def test_not_where_the_epilogue_takes_an_index(self, dim):
        last = ScalarFunction((np.dtype("f4"),), (X + cast(index_of(dim), "f4"),))
        problem = problem_from_md_hom(on_matrix(X, epilogue=Epilogue(last)))
        assert problem.labels == ("i", "j")

    def test_not_where_a_place_is_computed_from_an_index(self):
        assert CASES["border_lanes"].problem().labels == ("i", "j")

    def test_not_where_only_one_of_them_is_combined(self):
        assert problem_from_md_hom(on_matrix(X, (CC, Pointwise(ADD)))).labels == ("i", "j")

    def test_not_of_scanned_dims(self):
        for combines in ((CC, PrefixSum(ADD)), (PrefixSum(ADD), CC)):
            assert problem_from_md_hom(on_matrix(X, combines)).labels == ("i", "j")

    def test_of_dims_beside_a_scanned_one(self):
        x = BufferSpec("x", TensorSpec.of((2, 3, 4), "f4"))
        index = tuple(map(AffineIndex.of, "ijk"))
        md_hom = MDHom(
            (Dim("i", 2, CC), Dim("j", 3, CC), Dim("k", 4, PrefixSum(ADD))),
            ScalarFunction((np.dtype("f4"),), (X,), "id"),
            (x,),
            (replace(x, name="y"),),
            (BufferAccess(0, index),),
            (BufferAccess(0, index),),
        )
        problem = problem_from_md_hom(md_hom)
        assert (problem.labels, problem.scanned) == (("ij", "k"), 1)

    @pytest.mark.parametrize(
        ("operator", "labels"),
        [(ADD, ("ik", "j")), (replace(ADD, commutative=False), ("i", "j", "k"))],
    )
    def test_of_dims_around_another_where_the_order_does_not_count(self, operator, labels):
        md_hom = MDHom(
            tuple(Dim(n, e, Pointwise(operator)) for n, e in (("i", 2), ("j", 3), ("k", 4))),
            ScalarFunction((np.dtype("f4"),), (X,), "id"),
            (BufferSpec("x", TensorSpec.of((3,), "f4")),),
            (BufferSpec("y", TensorSpec.of((), "f4")),),
            (BufferAccess(0, (AffineIndex.of("j"),)),),
            (BufferAccess(0, ()),),
        )
        assert set(problem_from_md_hom(md_hom).labels) == set(labels)

    def test_indices_of_unit_dims_are_zero(self):
        taken = X + cast(index_of("i") + index_of("j"), "f4")
        problem = problem_from_md_hom(on_matrix(taken, shape=(1, 7)))
        assert problem.labels == ("j",)
        assert dims_in(problem.scalar.results[0]) == ("j",)


class TestUnitDims:
    """With `units`, a dim of extent 1 stays where a longer one has the same role."""

    @staticmethod
    def convolved(images: int, filters: int = 3, rest: int = 1) -> Problem:
        """Images `nxc` in a margin, by windows of three, beside an operand of the results."""
        dims = ("n", images, CC), ("x", 5, CC), ("k", 4, CC), ("r", filters, Pointwise(ADD))
        x = TensorSpec((np.dtype("f4")), (images, 7), (9, 1))
        function = ScalarFunction((np.dtype("f4"),) * 2, (X * param(1, "f4"),), "mul")
        last = ScalarFunction((np.dtype("f4"),) * 2, (X + param(1, "f4"),), "add")
        results = tuple(map(AffineIndex.of, ("n", "x", "k")))
        md_hom = MDHom(
            tuple(Dim(*dim) for dim in dims),
            function,
            (
                BufferSpec("x", x),
                BufferSpec("w", TensorSpec.of((4, filters), "f4")),
                BufferSpec("z", TensorSpec.of((images, 5, 4) if rest else (5, 4), "f4")),
            ),
            (BufferSpec("y", TensorSpec.of((images, 5, 4), "f4")),),
            (
                BufferAccess(0, (AffineIndex.of("n"), AffineIndex.of("x", "r"))),
                BufferAccess(1, (AffineIndex.of("k"), AffineIndex.of("r"))),
            ),
            (BufferAccess(0, results),),
            Epilogue(last, (BufferAccess(2, results if rest else results[1:]),)),
        )
        return problem_from_md_hom(md_hom, units=True)

    def test_a_batch_of_one_has_the_structure_of_several(self):
        one, several = (generalised(self.convolved(images)) for images in (1, 8))
        assert one[0] == several[0]
        assert one[1] != several[1]

    def test_those_of_a_role_of_their_own_are_dropped(self):
        assert "r" not in self.convolved(8, filters=1).labels
        assert "n" not in self.convolved(1, rest=0).labels

    def test_without_it_all_are_dropped(self):
        assert problem_from_md_hom(on_matrix(X, shape=(1, 7))).labels == ("j",)


class TestScans:
    def test_a_scanned_dim_is_combined_and_kept(self):
        problem = CASES["scan_lanes"].problem()
        assert problem.scanned == 1
        assert problem.kept == (0,)
        assert problem.contracted == (1,)
        assert problem.result_dims == (0, 1)

    def test_a_unit_dim_is_not_scanned(self):
        problem = problem_from_md_hom(on_matrix(X, (PrefixSum(ADD), CC), shape=(1, 7)))
        assert problem.scanned == -1
        assert problem.labels == ("j",)

    @pytest.mark.parametrize(
        "combines", [(PrefixSum(ADD), Pointwise(ADD)), (PrefixSum(ADD), PrefixSum(ADD))]
    )
    def test_beside_another_combination_is_refused(self, combines):
        with pytest.raises(LoweringError, match="one kernel cannot combine by") as caught:
            problem_from_md_hom(on_matrix(X, combines))
        assert caught.value.hint == "cut the md_hom into stages first"

    def test_several_operators_are_refused(self):
        largest = named("max", ["f4"])
        with pytest.raises(LoweringError, match=r"combine by \[pw\(max\), pw\(add\)\]"):
            problem_from_md_hom(on_matrix(X, (Pointwise(largest), Pointwise(ADD))))


class TestFinish:
    problem = CASES["epilogue_tiles"].problem()

    def test_reads_streams_of_its_own(self):
        assert self.problem.finish is not None
        assert self.problem.finish_streams == 2
        assert [read.stream for read in self.problem.reads] == [0, 1]
        assert [read.stream for read in self.problem.finish.reads] == [2, 3]
        assert len(self.problem.all_reads) == 4

    def test_does_not_share_a_stream_with_the_scalar_function(self):
        last = ScalarFunction((np.dtype("f4"),) * 2, (X + param(1, "f4"),))
        place = BufferAccess(0, (AffineIndex.of("i"), AffineIndex.of("j")))
        problem = problem_from_md_hom(on_matrix(X, epilogue=Epilogue(last, (place,))))
        assert problem.finish_streams == 1
        assert problem.streams[0] == problem.streams[1]

    def test_decides_what_is_written(self):
        last = ScalarFunction((np.dtype("f4"),), (apply("gt", X, 0),))
        problem = problem_from_md_hom(on_matrix(X, (CC, Pointwise(ADD)), epilogue=Epilogue(last)))
        assert problem.written_dtypes == (np.dtype("?"),)
        assert problem.scalar.result_dtypes == (np.dtype("f4"),)
        assert not problem.accumulates_in_place

    def test_drops_the_flag_of_an_operator_without_identity(self):
        first = Operator((np.dtype("f4"),), (X,), None, False, "first")
        problem = problem_from_md_hom(on_matrix(X, (CC, Pointwise(first))))
        assert problem.scalar.result_dtypes == (np.dtype("f4"), np.dtype("?"))
        assert problem.written_dtypes == (np.dtype("f4"),)
        assert problem.operator is not None
        assert problem.operator.identity == (0, False)


class TestComputed:
    problem = CASES["gather_lanes"].problem()

    def test_the_axis_is_a_part_of_the_read_and_not_of_the_stream(self):
        plain, computed = self.problem.reads
        assert plain.computed == ()
        (axis,) = computed.computed
        assert axis.extent.constant == 7
        assert axis.stride.constant == 7
        assert [s.constant for s in self.problem.streams[computed.stream].strides] == [0, 1]

    def test_only_the_plain_stream_is_plain(self):
        assert self.problem.is_plain(0)
        assert not self.problem.is_plain(1)


def structure(md_hom: MDHom) -> Problem:
    return generalised(problem_from_md_hom(md_hom))[0]


def with_extents(md_hom: MDHom, extents: dict[str, int]) -> MDHom:
    """The md_hom on C-ordered arrays whose axes are as long as the dims that they are read by."""

    def resized(
        buffers: tuple[BufferSpec, ...], accesses: tuple[BufferAccess, ...]
    ) -> tuple[BufferSpec, ...]:
        result: list[BufferSpec] = []
        for number, buffer in enumerate(buffers):
            access = next(a for a in accesses if a.buffer == number)
            shape = [
                extents[axis.dims[0]] if isinstance(axis, AffineIndex) else old
                for axis, old in zip(access.index, buffer.spec.shape, strict=True)
            ]
            result.append(BufferSpec(buffer.name, TensorSpec.of(shape, buffer.spec.dtype)))
        return tuple(result)

    between = md_hom.epilogue.view if md_hom.epilogue else ()
    return replace(
        md_hom,
        dims=tuple(replace(dim, extent=extents[dim.name]) for dim in md_hom.dims),
        inputs=resized(md_hom.inputs, (*md_hom.inp_view, *between)),
        outputs=resized(md_hom.outputs, md_hom.out_view),
    )


@pytest.mark.parametrize(
    "name", ["scan_lanes", "argmax_lanes", "epilogue_tiles", "gather_lanes", "border_lanes"]
)
def test_other_extents_have_the_same_structure(name):
    md_hom = CASES[name].md_hom()
    extents = {dim.name: 11 + n for n, dim in enumerate(md_hom.dims)}
    other = with_extents(md_hom, extents)
    assert structure(other) == structure(md_hom)
    assert generalised(problem_from_md_hom(other))[1] != generalised(problem_from_md_hom(md_hom))[1]


def test_dims_in_functions_take_the_names_of_the_structure():
    general = structure(CASES["argmax_lanes"].md_hom())
    assert general.labels == ("d0", "d1")
    assert dims_in(general.scalar.results[1]) == ("d1",)


def test_an_axis_that_is_gathered_from_may_have_any_length():
    general = structure(CASES["gather_lanes"].md_hom())
    (axis,) = general.reads[1].computed
    assert axis.extent.constant is None
    assert axis.stride.constant is None


def test_places_of_different_functions_are_different_structures():
    def moved(by: int) -> MDHom:
        md_hom = CASES["border_lanes"].md_hom()
        left = ComputedIndex(apply("min", index_of("j") * by, 3))
        whole, _ = md_hom.inp_view
        return replace(md_hom, inp_view=(whole, BufferAccess(0, (AffineIndex.of("i"), left))))

    assert structure(moved(2)) == structure(moved(2))
    assert structure(moved(2)) != structure(CASES["border_lanes"].md_hom())


def test_neighbours_in_a_structure_are_steps_apart():
    def blurred(extent: int):
        made = stencil_from_function(
            lambda u: u[-1, 0] + u[0, -2] + u[0, 0] + u[1, 1], [TensorSpec.of((extent, extent))]
        )
        return problem_from_md_hom(md_homs_from_stencil(made, Border("valid"))[0])

    structure, sizes = generalised(blurred(100))
    assert [repr(read.offset) for read in structure.reads] == [
        *("2", "stride0_0", "stride0_0 + 2", "2*stride0_0 + 3")
    ]
    assert not any(label.endswith("_at") for label in structure.sizes)
    assert generalised(blurred(4000))[0] == structure
    assert generalised(blurred(4000))[1] != sizes


def convolution(stride: int, extent: int) -> Problem:
    spec = TensorSpec.of((extent, extent, 8)), TensorSpec.of((16, 3, 3, 8))
    text = f"{stride}p+r {stride}q+s c, k r s c -> p q k"
    return problem_from_md_hom(md_hom_from_einsum(text, spec))


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_windows_that_share_elements_share_their_steps_in_a_structure(stride):
    problem = convolution(stride, 40)
    general, sizes = generalised(problem)
    assert len(sizes) == len(general.sizes)
    assert generalised(convolution(stride, 75))[0] == general
    (image, _) = general.streams
    labels = dict(zip(problem.labels, image.strides, strict=True))
    if stride < 3:
        assert labels["p"] == labels["r"] * stride
    else:
        assert labels["p"] != labels["r"] * stride, "windows of three have nothing in common"
    values = dict(zip(general.sizes, sizes, strict=True))
    found = [evaluated(index, values) for index in image.strides]
    assert found == [index.constant for index in problem.streams[0].strides]


def test_windows_that_overlap_otherwise_are_other_structures():
    assert len({generalised(convolution(stride, 40))[0] for stride in (1, 2, 3, 4)}) == 3


def test_far_offsets_of_a_structure_are_names():
    made = stencil_from_function(
        lambda u: u[-9, 0] + u[0, 0] + u[0, 40], [TensorSpec.of((100, 200))]
    )
    problem = problem_from_md_hom(md_homs_from_stencil(made, Border("valid"))[0])
    offsets = [repr(read.offset) for read in generalised(problem)[0].reads]
    assert offsets == ["0", "read1_at", "read2_at"]


def test_no_hash_goes_to_another_process():
    """Texts have other hashes there."""
    problem = problem_from_md_hom(on_matrix(X))
    assert hash(problem) == problem.__dict__["_hash"]
    copied = pickle.loads(pickle.dumps(problem))
    assert "_hash" not in copied.__dict__
    assert copied == problem
