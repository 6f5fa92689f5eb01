"""Programs of CUDA without a GPU: what NVRTC makes of them, instruction by instruction.

All threads of a group take an instruction together where they are at the same place, those furthest
behind first. What copies itself to shared memory is there when it was waited for, not before;
shared memory is NaN until then. Addresses outside of the arrays are an AssertionError.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from mdtensor.kernels.kernel_source import ALIGNMENT, KernelEntry, KernelSource
from tests.kernels.mma_fragments import (
    LANES,
    factors_of_registers,
    matrix_of_rows,
    results_of_registers,
)
from tests.kernels.nvrtc_compiler import compiled

_TYPES = {
    "b16": "u2", "u16": "u2", "s16": "i2", "b32": "u4", "u32": "u4", "s32": "i4", "b64": "u8",
    "u64": "u8", "s64": "i8", "f32": "f4", "f64": "f8", "b8": "u1", "u8": "u1", "s8": "i1",
}  # fmt: skip
_REGISTERS = {"r": "u4", "rd": "u8", "rs": "u2", "f": "f4", "fd": "f8", "p": "?"}
_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_OPERATIONS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
    "shr": np.right_shift, "rem": np.fmod,
}  # fmt: skip
_INSTRUCTION = re.compile(r"(?:@(!?)(%p\d+)\s+)?([a-z][\w.:]*)\s*(.*?);$")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
_POOL_ALIGNMENT = 1024


@dataclass(frozen=True)
class Instruction:
    """An instruction: where its predicate must be true or false, its parts, its operands."""

    parts: tuple[str, ...]
    operands: tuple[str, ...]
    predicate: str = ""
    negated: bool = False


@dataclass(frozen=True)
class Kernel:
    """The instructions of an entry, where its labels are, its parameters, its shared arrays."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    parameters: tuple[str, ...]
    shared: dict[str, int]
    shared_bytes: int


class EmulatedGpu:
    """A device of one compute capability, whose programs take NumPy arrays.

    `loads` are those from shared memory: bytes, and the addresses of all threads that load.
    """

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.loads: list[tuple[int, np.ndarray]] = []

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> EmulatedProgram:
        assert not sizes
        return EmulatedProgram(source, self)


class EmulatedProgram:
    """A program for arrays of NumPy."""

    def __init__(self, source: KernelSource, device: EmulatedGpu) -> None:
        self.source, self.device = source, device

    def __call__(self, *arrays: np.ndarray) -> None:
        addresses = [array.__array_interface__["data"][0] for array in arrays]
        source = self.source
        if source.unaligned and any(address % ALIGNMENT for address in addresses):
            source = source.unaligned
        bounds = [np.lib.array_utils.byte_bounds(array) for array in arrays]
        memory = [(low, _bytes_at(low, high - low)) for low, high in bounds]
        text = compiled(source.text, self.device.architecture)
        scratch = max(entry.scratch.constant or 0 for entry in source.entries)
        held = np.full(scratch + 16, 0xFF, np.uint8)
        memory.append((held.ctypes.data, held))
        for entry in source.entries:
            kernel = parsed(text, entry.name)
            given = dict(zip(kernel.parameters, [*addresses, held.ctypes.data], strict=False))
            for group in range(entry.groups.constant or 0):
                Group(kernel, entry, given, memory, group, self.device.loads).run()


def _bytes_at(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))


def parsed(text: str, name: str) -> Kernel:
    """An entry of a PTX text."""
    shared, place = dict[str, int](), 0
    for found, extent in re.findall(r"\.shared \.align \d+ \.b8 (\w+)\[(\d*)\];", text):
        place = -(-place // _POOL_ALIGNMENT) * _POOL_ALIGNMENT
        shared[found] = place
        place += int(extent or 0)
    head, body = text.split(f".entry {name}(")[1].split("\n{\n", 1)
    instructions, labels = list[Instruction](), dict[str, int]()
    for each in body.split("\n}\n", 1)[0].splitlines():
        line = each.partition("//")[0].strip()
        if line.startswith("$") and line.endswith(":"):
            labels[line[:-1]] = len(instructions)
        elif found := _INSTRUCTION.match(line):
            negated, predicate, operation, operands = found.groups()
            given = tuple(_OPERAND.findall(operands))
            parts = tuple(operation.split("."))
            instructions.append(Instruction(parts, given, predicate or "", negated == "!"))
        else:
            assert not line or line.startswith("."), line
    return Kernel(
        tuple(instructions), labels, tuple(re.findall(r"\w+_param_\d+", head)), shared, place
    )


@dataclass
class Group:
    """The threads of a group, their registers, and where each of them is."""

    kernel: Kernel
    entry: KernelEntry
    given: dict[str, int]
    memory: list[tuple[int, np.ndarray]]
    number: int
    loads: list[tuple[int, np.ndarray]]
    registers: dict[str, np.ndarray] = field(default_factory=dict)
    copies: list[list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=lambda: [[]])

    def run(self) -> None:
        """Runs all threads to their end."""
        count = self.entry.threads
        size = -(-self.kernel.shared_bytes // _POOL_ALIGNMENT) * _POOL_ALIGNMENT + self.entry.pool
        self.shared = np.full(size, 0xFF, np.uint8)
        self.places = np.zeros(count, np.int64)
        self.waiting = np.zeros(count, bool)
        end = len(self.kernel.instructions)
        while (self.places < end).any():
            ready = (self.places < end) & ~self.waiting
            if not ready.any():
                self.waiting[:] = False
                continue
            place = self.places[ready].min()
            active = ready & (self.places == place)
            self.places[active] = place + 1
            instruction = self.kernel.instructions[place]
            if instruction.predicate:
                active &= self.registers[instruction.predicate] != instruction.negated
            if active.any():
                self._step(instruction, active)

    def _step(self, instruction: Instruction, active: np.ndarray) -> None:
        parts, operands = instruction.parts, instruction.operands
        match parts[0]:
            case "ret":
                self.places[active] = len(self.kernel.instructions)
            case "bra":
                self.places[active] = self.kernel.labels[operands[0]]
            case "bar":
                self.waiting |= active
            case "cp":
                self._copy(parts, operands, active)
            case "ldmatrix":
                self._load_matrices(parts, operands, active)
            case "mma":
                self._multiply(parts, operands, active)
            case "ld" if parts[1] == "param":
                address = np.uint64(self.given[operands[1].strip("[]")])
                self._set(operands[0], np.full(active.size, address), active)
            case "ld":
                names, kind = _names(operands[0]), _TYPES[parts[-1]]
                where = self._addresses(operands[1], active)
                if parts[1] == "shared":
                    self.loads.append((len(names) * np.dtype(kind).itemsize, where))
                for n, name in enumerate(names):
                    found = np.zeros(active.size, kind)
                    found[active] = self._read(parts[1], where + n * found.itemsize, kind)
                    self._set(name, found, active)
            case "st":
                kind = _TYPES[parts[-1]]
                where = self._addresses(operands[0], active)
                for n, name in enumerate(_names(operands[1])):
                    value = self._value(name, kind)[active]
                    self._write(parts[1], where + n * value.itemsize, value)
            case _:
                self._set(operands[0], self._computed(parts, operands[1:]), active)

    def _computed(self, parts: Sequence[str], operands: Sequence[str]) -> np.ndarray:
        operation, kind = parts[0], _TYPES.get(parts[-1], "?")
        if operation == "mov" and operands[0].startswith("{"):  # two halves, the lower first
            lower, upper = (self._value(name, "u2").astype("u4") for name in _names(operands[0]))
            return lower | upper << np.uint32(16)
        if operation in ("mov", "cvta"):
            return self._value(operands[0], kind)
        if operation == "cvt" and len(operands) > 1:  # two floats, the upper half's first
            short = {"f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16}[parts[2]]
            upper, lower = (self._value(o, "f4").astype(short).view("u2") for o in operands)
            return upper.astype("u4") << np.uint32(16) | lower
        if operation == "cvt":
            return self._converted(parts, self._value(operands[0], _source_type(parts)))
        if operation == "selp":
            first, second = (self._value(o, kind) for o in operands[:2])
            return np.where(self.registers[operands[2]], first, second)
        if operation == "bfi":
            inserted, base, (place,), (length,) = (
                self._value(operands[0], kind), self._value(operands[1], kind),
                self._value(operands[2], "u4")[:1], self._value(operands[3], "u4")[:1],
            )  # fmt: skip
            mask = np.array(((1 << int(length)) - 1) << int(place)).astype(kind)
            return (inserted << place.astype(kind)) & mask | base & ~mask
        shifts = operation in ("shl", "shr")
        values = [self._value(o, "u4" if shifts and n else kind) for n, o in enumerate(operands)]
        if operation == "setp":
            return _COMPARISONS[parts[1]](*values)
        if operation == "fma":
            wide = [value.astype("f8") for value in values]
            return (wide[0] * wide[1] + wide[2]).astype(kind)
        if operation == "not":
            return ~values[0]
        if "hi" in parts:
            exact = values[0].astype(object) * values[1].astype(object)
            return (exact >> 8 * values[0].itemsize).astype(kind)
        if "wide" in parts:
            wide = f"{kind[0]}{2 * int(kind[1])}"
            values = [value.astype(wide) for value in values[:2]]
            return values[0] * values[1]
        if operation == "mad":
            return values[0] * values[1] + values[2]
        if operation == "div":  # towards zero
            return (values[0] - np.fmod(*values)) // values[1]
        if shifts:
            return _OPERATIONS[operation](values[0], values[1].astype(kind))
        return _OPERATIONS[operation](*values)

    def _converted(self, parts: Sequence[str], value: np.ndarray) -> np.ndarray:
        if "tf32" in parts:  # to the nearest of 10 bits, ties away from zero
            return (value.view("u4") + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        if "f16" in parts[1:3] and parts[-1] == "f32":
            return value.astype("f2").view("u2")
        if parts[1:] == ("f32", "f16"):
            return value.view("f2").astype("f4")
        return value.astype(_TYPES[next(part for part in parts[1:] if part in _TYPES)])

    def _copy(self, parts: Sequence[str], operands: Sequence[str], active: np.ndarray) -> None:
        if parts[2] == "commit_group":
            assert active.all()
            self.copies.append([])
        elif parts[2] == "wait_group":
            assert active.all()
            self.copies, pending = [[], *self.copies[-1 - int(operands[0]) :]], self.copies
            self.copies = self.copies[1:]
            for copies in pending[: len(pending) - len(self.copies)]:
                for where, content in copies:
                    self._write("shared", where, content)
        else:
            kind = f"V{int(operands[2])}"
            where = self._addresses(operands[0], active)
            content = self._read("global", self._addresses(operands[1], active), kind)
            self.copies[-1].append((where, content))

    def _warps(self, active: np.ndarray) -> list[slice]:
        """The warps of which all threads are there; none may be there in parts."""
        together = active.reshape(-1, LANES)
        assert (together.all(axis=1) == together.any(axis=1)).all()
        return [slice(LANES * n, LANES * (n + 1)) for n in np.flatnonzero(together.all(axis=1))]

    def _load_matrices(
        self, parts: Sequence[str], operands: Sequence[str], active: np.ndarray
    ) -> None:
        names, every = _names(operands[0]), np.ones(active.size, bool)
        where = self._addresses(operands[1], every)
        for warp in self._warps(active):
            own = np.zeros(active.size, bool)
            own[warp] = True
            for n, name in enumerate(names):
                rows = self._read("shared", where[warp][8 * n : 8 * n + 8], "V16")
                found = np.zeros(active.size, "u4")
                found[warp] = matrix_of_rows(rows.view("u2").reshape(8, 8), "trans" in parts)
                self._set(name, found, own)

    def _multiply(self, parts: Sequence[str], operands: Sequence[str], active: np.ndarray) -> None:
        shape, kinds = parts[3], parts[6:10]
        results, *factors = (_names(operand) for operand in operands[:3])
        kind = {"f32": "u4", "f16": "u4", "bf16": "u4", "tf32": "u4", "f64": "f8"}
        for warp in self._warps(active):
            rows, columns = (
                factors_of_registers(
                    shape, kinds[1], side, [self._value(r, kind[kinds[1]])[warp] for r in names]
                )
                for side, names in zip("ab", factors, strict=True)
            )
            held = [self._value(name, _TYPES[kinds[0]])[warp] for name in _names(operands[3])]
            own = np.zeros(active.size, bool)
            own[warp] = True
            added = results_of_registers(shape, held, rows.astype("f8") @ columns.astype("f8"))
            for name, value in zip(results, added, strict=True):
                found = np.zeros(active.size, value.dtype)
                found[warp] = value
                self._set(name, found, own)

    def _value(self, operand: str, kind: str) -> np.ndarray:
        """The operand in all threads, as that type: bits as they are."""
        count = self.places.size
        if operand.startswith("%"):
            if operand == "%tid.x":
                return np.arange(count, dtype=kind)
            if operand == "%ctaid.x":
                return np.full(count, self.number, kind)
            value = self.registers[operand]
            same = kind == "?" or value.itemsize == np.dtype(kind).itemsize
            return value.view(kind) if same else value.astype(kind)
        if operand[:2] in ("0f", "0d"):
            held, single = operand.replace(operand[:2], "0x"), operand[1] == "f"
            bits = np.array(int(held, 0), "u4" if single else "u8")
            return np.full(count, bits.view("f4" if single else "f8")).view(kind)
        if operand in self.kernel.shared:
            return np.full(count, self.kernel.shared[operand], kind)
        return np.full(count, int(operand, 0)).astype(kind)

    def _set(self, name: str, value: np.ndarray, active: np.ndarray) -> None:
        kind = _REGISTERS[name.strip("%0123456789")]
        if value.dtype.str[1:] != kind and kind != "?":
            same = value.dtype.itemsize == np.dtype(kind).itemsize
            value = value.view(kind) if same else value.astype(kind)
        before = self.registers.get(name)
        new = value.copy() if before is None else before.copy()
        new[active] = value[active]
        self.registers[name] = new

    def _addresses(self, operand: str, active: np.ndarray) -> np.ndarray:
        base, _, offset = operand.strip("[]").partition("+")
        return self._value(base, "i8")[active].astype("i8") + int(offset or 0)

    def _read(self, space: str, where: np.ndarray, kind: str) -> np.ndarray:
        size = np.dtype(kind).itemsize
        memory, places = self._located(space, where, size)
        return np.ascontiguousarray(memory[places]).view(kind).reshape(-1)

    def _write(self, space: str, where: np.ndarray, value: np.ndarray) -> None:
        memory, places = self._located(space, where, value.itemsize)
        memory[places] = np.ascontiguousarray(value).view("u1").reshape(places.shape)

    def _located(self, space: str, where: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The memory that holds all addresses, and where its bytes are, by thread."""
        assert (where % size == 0).all(), f"{space} memory is accessed at no multiple of {size}"
        spaces = [(0, self.shared)] if space == "shared" else self.memory
        for start, memory in spaces:
            if (where >= start).all() and (where + size <= start + memory.size).all():
                return memory, (where - start)[:, None] + np.arange(size)
        raise AssertionError(f"{size} bytes outside of {space} memory")


def _names(operand: str) -> list[str]:
    return [name.strip() for name in operand.strip("{}").split(",")]


def _source_type(parts: Sequence[str]) -> str:
    return "u2" if parts[-1] in ("f16", "bf16") else _TYPES[parts[-1]]
