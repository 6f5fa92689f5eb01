"""What a work-item does for a tile of a reduction, counted in machine code; needs no GPU.

`python -m bench.gpu_instructions --nvdisasm PATH ij,jk->ik i=333 j=513 k=777 SCHEDULE…` compiles
an einsum in float32 by schedules, texts as searches print them, and counts the instructions of the
innermost loop that both copies and multiplies: those of loops inside as often as they run, behind
them what is left of a tile, which runs in the last turn only, not at all.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mdtensor.backends.cuda.nvrtc import machine_code
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

ARCHITECTURE = "sm_90a"
_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?(\w+)(.*?);")
_JUMP = re.compile(r"`\((\.L_x_\d+)\)")


@dataclass(frozen=True)
class Code:
    """Instructions in their order, and the loops among them, by first and last instruction."""

    names: tuple[str, ...]
    loops: tuple[tuple[int, int], ...]

    def counted(self, loop: tuple[int, int]) -> Counter[str]:
        """The instructions of a loop by their names."""
        return Counter(self.names[loop[0] : loop[1] + 1])

    def inside(self, loop: tuple[int, int]) -> list[tuple[int, int]]:
        """The loops in a loop."""
        return [each for each in self.loops if loop[0] <= each[0] and each[1] < loop[1]]


def code_of(listing: str) -> Code:
    """The code in a listing of `nvdisasm -c`.

    >>> code_of(".L_x_0:\\n /*0010*/ FFMA R0, R1, R2, R0 ;\\n /*0020*/ @P0 BRA `(.L_x_0) ;")
    Code(names=('FFMA', 'BRA'), loops=((0, 1),))
    """
    labels: dict[str, int] = {}
    names: list[str] = []
    loops: list[tuple[int, int]] = []
    for line in listing.splitlines():
        if found := _LABEL.match(line):
            labels[found[1]] = len(names)
        elif found := _INSTRUCTION.search(line):
            to = _JUMP.search(found[2])
            if found[1] == "BRA" and to and to[1] in labels:
                loops.append((labels[to[1]], len(names)))
            names.append(found[1])
    return Code(tuple(names), tuple(loops))


def instructions_of_turn(code: Code, products: int) -> tuple[int, int]:
    """Instructions and copies of a turn in which a work-item has so many products; 0 for none."""
    for loop in sorted(code.loops, key=lambda each: each[1] - each[0]):
        ops = code.counted(loop)
        copies = ops["LDG"] + ops["LDGSTS"]
        if not copies or not ops["FFMA"]:
            continue
        inner = [each for each in code.inside(loop) if code.counted(each)["FFMA"]]
        total = loop[1] - loop[0] + 1
        if inner:
            steps = inner[0]
            total += (products // code.counted(steps)["FFMA"] - 1) * (steps[1] - steps[0] + 1)
            total -= _behind(code, steps, loop, inner[1:])
        return total, copies
    return 0, 0


def _behind(
    code: Code, steps: tuple[int, int], loop: tuple[int, int], others: Sequence[tuple[int, int]]
) -> int:
    """Instructions from the loop over steps to the last product: what is left of a tile."""
    last = max((n for n in range(*loop) if code.names[n] == "FFMA"), default=0)
    end = max([last, *(each[1] for each in others)])
    return max(0, end - steps[1]) if others or last > steps[1] else 0


def machine(text: str, nvdisasm: Path) -> tuple[Code, int]:
    """The code of a kernel's text, and the registers of a work-item."""
    from cuda.bindings import nvrtc

    def done(answer: tuple[object, ...]) -> object:
        if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"NVRTC: {answer[0]}")
        return answer[1] if len(answer) > 1 else None

    options = (f"--gpu-architecture={ARCHITECTURE}", "--std=c++17", "--ptxas-options=-v")
    program = done(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    done(nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options]))
    log = bytearray(done(nvrtc.nvrtcGetProgramLogSize(program)))  # type: ignore[arg-type]
    done(nvrtc.nvrtcGetProgramLog(program, log))
    cubin = bytearray(done(nvrtc.nvrtcGetCUBINSize(program)))  # type: ignore[arg-type]
    done(nvrtc.nvrtcGetCUBIN(program, cubin))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        listing = subprocess.run(
            [nvdisasm, "-c", file.name], capture_output=True, text=True, check=True
        ).stdout
    return code_of(listing), machine_code(bytes(cubin), log.decode()).registers


def problem_of(text: str, extents: dict[str, int]) -> Problem:
    """An einsum of arrays in float32."""
    terms = text.split("->", maxsplit=1)[0].split(",")
    specs = [TensorSpec.of(tuple(extents[letter] for letter in term), "f4") for term in terms]
    return problem_from_md_hom(md_hom_from_einsum(text, specs))


def products_of_turn(problem: Problem, schedule: Schedule) -> int:
    """Products of a work-item for a tile of the reduction."""
    products = 1
    for d in problem.dims:
        if problem.reduced[d]:
            products *= -(-(schedule.tiles[d] or problem.extent(d)) // schedule.threads[d])
        else:
            products *= schedule.registers[d]
    return products


def main() -> None:
    """Prints a line for each schedule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvdisasm", type=Path, default=Path("nvdisasm"))
    parser.add_argument("einsum")
    parser.add_argument("words", nargs="+", help="i=333 for an extent, {…} for a schedule")
    options = parser.parse_args()
    extents = {w[0]: int(w[2:]) for w in options.words if w[1] == "="}
    problem = problem_of(options.einsum, extents)
    for word in options.words:
        if not word.startswith("{"):
            continue
        schedule = Schedule.from_json(word)
        code, registers = machine(program_of(problem, schedule, CUDA).text, options.nvdisasm)
        products = products_of_turn(problem, schedule)
        total, copies = instructions_of_turn(code, products)
        print(
            f"registers {registers:3}  a turn: {total:5} instructions, {products:4} products, "
            f"{copies:3} copies, {total / products:.2f} a product"
        )


if __name__ == "__main__":
    main()
