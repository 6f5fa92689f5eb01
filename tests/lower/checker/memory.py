"""Memory that reports accesses out of bounds, uses of what was never set, and data races."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn


class FaultError(Exception):
    """A kernel does what its lowering must never let it do."""


class Poison:
    """An undefined value: arithmetic hands it on, and whatever depends on it is a fault."""

    def _same(self, *_: object) -> Poison:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _same
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _same
    __neg__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _same
    __eq__ = __ne__ = _same  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "undefined"

    def _decides(self, *_: object) -> NoReturn:
        raise FaultError("an undefined value decides where a kernel goes on, or what it accesses")

    __bool__ = __hash__ = __index__ = __int__ = __float__ = _decides  # type: ignore[assignment]


POISON = Poison()


class Memory(dict[int, Any]):
    """A buffer: its elements by their index; `base` is its address modulo 64."""

    __slots__ = ("base", "name")

    def __init__(self, name: str, elements: Iterable[tuple[int, Any]], base: int = 0) -> None:
        super().__init__(elements)
        self.name, self.base = name, base

    def __missing__(self, index: int) -> NoReturn:
        raise FaultError(f"{self.name}[{index}] is read, which is out of bounds")

    def put(self, index: int, value: Any, _who: int) -> None:
        """Stores an element."""
        if index not in self:
            raise FaultError(f"{self.name}[{index}] is written, which is out of bounds")
        self[index] = value

    def wide(self, index: int, size: int, lanes: int) -> list[Any]:
        """A vector at a multiple of its size, some of whose elements lie in the buffer.

        The others share a piece of memory with those, which no device protects in parts.
        """
        self.check_multiple(index, size, lanes)
        places = range(index, index + lanes)
        if not any(place in self for place in places):
            raise FaultError(f"{lanes} elements at {self.name}[{index}] are out of bounds")
        return [self.get(place, POISON) for place in places]

    def check_multiple(self, index: int, size: int, lanes: int) -> None:
        """A vector's address must be a multiple of its size."""
        if (self.base + index * size) % (size * lanes):
            raise FaultError(f"{lanes} elements at {self.name}[{index}] are not aligned")

    def to_multiple(self, index: int, size: int, nbytes: int) -> int:
        """Elements from a place on to the next address that is a multiple of `nbytes`."""
        return -(self.base + index * size) % nbytes // size


def array_of(name: str, extent: int) -> Memory:
    """An array of a work-item, undefined at first."""
    return Memory(name, dict.fromkeys(range(extent), POISON).items())


class Input(Memory):
    """A buffer that nobody may write."""

    __slots__ = ()

    def put(self, index: int, value: Any, _who: int) -> NoReturn:
        raise FaultError(f"{self.name}[{index}] is written, which is an input")


class Output(Memory):
    """Results at `places`; what several work-items store in one place must be equal.

    What lies between them can be read, but not written.
    """

    __slots__ = ("owners", "places")

    def __init__(self, name: str, places: Sequence[int], base: int = 0) -> None:
        between = range(min(places), max(places) + 1)
        super().__init__(name, dict.fromkeys(between, POISON).items(), base)
        self.places = frozenset(places)
        self.owners: dict[int, int] = {}

    def put(self, index: int, value: Any, who: int) -> None:
        if index not in self.places:
            raise FaultError(f"{self.name}[{index}] is written, which is no element of a result")
        if value is POISON:
            raise FaultError(f"an undefined value is stored in {self.name}[{index}]")
        owner = self.owners.setdefault(index, who)
        if owner != who and not _equal(self[index], value):
            raise FaultError(f"two work-items store unlike results in {self.name}[{index}]")
        self[index] = value


class Scratch(Memory):
    """Global memory of bytes, for elements of any size, undefined at first."""

    __slots__ = ("nbytes", "owners", "sizes")

    def __init__(self, nbytes: int) -> None:
        super().__init__("scratch", ())
        self.nbytes = nbytes
        self.sizes: dict[int, int] = {}
        self.owners: dict[int, int] = {}

    def get_as(self, place: int, size: int) -> Any:
        """The element of so many bytes at a byte."""
        self._check(place, size)
        return self.get(place, POISON) if self.sizes.get(place) == size else POISON

    def put_as(self, place: int, size: int, value: Any, who: int) -> None:
        """Stores an element of so many bytes; what it overlaps is undefined then."""
        self._check(place, size)
        for before in range(place - 7, place + size):
            if before != place and before + self.sizes.get(before, place - before) > place:
                self.sizes.pop(before)
        owner = self.owners.setdefault(place, who)
        if owner >> 16 != who >> 16 and not _equal(self.get(place, value), value):
            raise FaultError(f"two groups store unlike values in scratch memory, byte {place}")
        self[place], self.sizes[place] = value, size

    def _check(self, place: int, size: int) -> None:
        if not 0 <= place <= self.nbytes - size:
            raise FaultError(f"byte {place} of {self.nbytes} of scratch memory is out of bounds")
        if place % size:
            raise FaultError(f"byte {place} of scratch memory is no place of {size} bytes")


_ATOMIC: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "min": min, "max": max}
_MANY = -1


class Local(Memory):
    """Memory of a group: what one work-item writes, others may access after a barrier only."""

    __slots__ = ("readers", "writers")

    def __init__(self, name: str, extent: int) -> None:
        super().__init__(name, dict.fromkeys(range(extent), POISON).items())
        self.writers: dict[int, int] = {}
        self.readers: dict[int, int] = {}

    def meet(self) -> None:
        """All work-items have met at a barrier."""
        self.writers.clear()
        self.readers.clear()

    def read(self, index: int, who: int) -> Any:
        """The element that a work-item reads; undefined where another one may be writing it.

        Work-items read beyond their block, and drop what they have read.
        """
        if self.writers.get(index, who) != who:
            return POISON
        if self.readers.setdefault(index, who) != who:
            self.readers[index] = _MANY
        return self[index]

    def put(self, index: int, value: Any, who: int) -> None:
        if index not in self:
            raise FaultError(f"{self.name}[{index}] is written, which is out of bounds")
        mine = self.writers.setdefault(index, who) == who
        if self.readers.get(index, who) != who or not (mine or _equal(self[index], value)):
            raise FaultError(f"a data race: {self.name}[{index}] is written without a barrier")
        self[index] = value

    def combine(self, op: str, index: int, value: Any, bits: tuple[int, int]) -> None:
        """Combines a value into an integer atomically; `bits` are half its range, and the range."""
        if self.writers.setdefault(index, _MANY) != _MANY or index in self.readers:
            raise FaultError(f"a data race: {self.name}[{index}] is combined without a barrier")
        half, whole = bits
        result = _ATOMIC[op](self[index], value)
        self[index] = (result + half) % whole - half


def _equal(first: Any, second: Any) -> bool:
    return first is second or first == second or (first != first and second != second)


class Copies:
    """Asynchronous copies of a work-item to local memory, in groups in their order."""

    __slots__ = ("begun", "groups", "who")

    def __init__(self, who: int) -> None:
        self.who = who
        self.begun: list[tuple[Local, int, list[Any]]] = []
        self.groups: list[list[tuple[Local, int, list[Any]]]] = []

    def begin(self, target: Local, index: int, values: list[Any]) -> None:
        """What is copied there is undefined until it is awaited."""
        for n in range(len(values)):
            target.put(index + n, POISON, self.who)
        self.begun.append((target, index, values))

    def commit(self) -> None:
        """Ends a group of copies."""
        self.groups.append(self.begun)
        self.begun = []

    def wait(self, pending: int) -> None:
        """All but the last groups are done."""
        while len(self.groups) > pending:
            for target, index, values in self.groups.pop(0):
                for n, value in enumerate(values):
                    target.put(index + n, value, self.who)


class CopiesOut:
    """Copies from local memory that read it as late as they may."""

    __slots__ = ("begun", "who")

    def __init__(self, who: int) -> None:
        self.who = who
        self.begun: list[tuple[Memory, int, Local, int, int]] = []

    def begin(self, target: Memory, to: int, source: Local, at: int, count: int) -> None:
        """Notes a copy."""
        self.begun.append((target, to, source, at, count))

    def wait(self, pending: int) -> None:
        """All but the last copies are done."""
        while len(self.begun) > pending:
            target, to, source, at, count = self.begun.pop(0)
            for n in range(count):
                target.put(to + n, source.read(at + n, self.who), self.who)
