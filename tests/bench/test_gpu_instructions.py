"""Instructions of a turn, from listings of machine code."""

from __future__ import annotations

from bench.gpu_instructions import code_of, instructions_of_turn, problem_of, products_of_turn
from tests.kernels.kernel_cases import gpu


def listing(*lines: str) -> str:
    """Lines that begin with a dot are labels; the others get a place and a bracket."""
    return "\n".join(
        f"{line}:" if line.startswith(".") else f"        /*{n:04x}*/  {line} ;  /* 0x0 */"
        for n, line in enumerate(lines)
    )


STEPS = (".L_x_1", "LDS.128 R0, [R1]", "FFMA R4, R0, R1, R4", "FFMA R5, R0, R2, R5")
BEGIN = ("MOV R1, R2", ".L_x_0", "LDG.E R8, desc[UR4][R2.64]", "@!P0 STS [R1], R8", *STEPS)
END = ("BAR.SYNC.DEFER_BLOCKING 0x0", "@P1 BRA `(.L_x_0)", "EXIT")


def test_a_loop_inside_counts_as_often_as_it_runs():
    code = code_of(listing(*BEGIN, "@P0 BRA `(.L_x_1)", *END))
    assert code.loops == ((3, 6), (1, 8))
    # A load, a store and two more around eight products in four steps of four instructions.
    assert instructions_of_turn(code, 8) == (4 + 4 * 4, 1)


def test_what_is_left_of_a_tile_counts_nothing():
    rest = ("@P2 BRA `(.L_x_3)", "FFMA R4, R0, R1, R4", ".L_x_3")
    code = code_of(listing(*BEGIN, "@P0 BRA `(.L_x_1)", *rest, *END))
    assert instructions_of_turn(code, 8) == (4 + 4 * 4, 1)


def test_code_without_loops_over_tiles_has_no_turn():
    assert instructions_of_turn(code_of(listing("LDG.E R0, [R2]", "FFMA R0, R0, R0, R0")), 8) == (
        0,
        0,
    )


def test_products_of_a_turn():
    problem = problem_of("ij,jk->ik", {"i": 33, "j": 51, "k": 77})
    schedule = gpu(3, (1,), tiles=(0, 16, 0), threads=(4, 2, 8), registers=(4, 8, 2))
    assert products_of_turn(problem, schedule) == 4 * 8 * 2
