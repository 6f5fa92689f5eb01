"""The devices of a call: their names, engines, and relative speeds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import ranked
from mdtensor.api.multi_device.shares import Link
from mdtensor.backends.select import UsableDevice, found_devices
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import DeviceError, DTypeError, NoDeviceError, shown
from mdtensor.options import real
from mdtensor.translate.md_hom import MDHom

if TYPE_CHECKING:
    from mdtensor.backends.cuda.peer_streams import PeerStreams

_HINT = "'all', a list of names as mdtensor.devices() has them, or a dict from names to weights"


_type_of: Any = type
# What was named before; to look for all devices takes longer than other parts of a call.
_resolved = Bounded[Hashable, "DeviceList"](64)


@dataclass(frozen=True, slots=True)
class DeviceList:
    """The devices of a call by full name, their kind of arrays, and the caller's weights."""

    arrays: str
    names: tuple[str, ...]
    weights: tuple[float, ...] | None = None

    @classmethod
    def of(cls, said: Any, arrays: str = "numpy") -> DeviceList:
        """The devices from a caller's argument; raises DeviceError or DTypeError for wrong ones."""
        key = _key(said, arrays)
        if key is None:
            return cls._found(said, arrays)
        return _resolved.made(key, lambda: cls._found(said, arrays))

    @classmethod
    def _found(cls, said: Any, arrays: str) -> DeviceList:
        fitting, each = [found for found in _found() if found.arrays == arrays], said
        if isinstance(said, str):
            return cls(arrays, _all(said, arrays, fitting))
        if not isinstance(said, Mapping | list | tuple):
            raise DTypeError(f"devices is {shown(said)}", hint=_HINT)
        if not said:
            raise DeviceError("devices is empty", hint=_HINT)
        given: dict[str, Any] = {}
        for name in each:
            full = _called(name, arrays, fitting)
            if full in given:
                raise DeviceError(
                    f"{shown(given[full])} and {shown(name)} are one device: {full}",
                    hint="name each device once",
                )
            given[full] = name
        weights = None
        if isinstance(said, Mapping):
            weights = tuple(_weight(name, each[name]) for name in given.values())
        return cls(arrays, tuple(given), weights)

    def engines(self) -> tuple[Engine, ...]:
        """The engine of each device."""
        return tuple(registry.engine_called(name, self.arrays) for name in self.names)

    def places(self) -> tuple[tuple[int, ...], int | None]:
        """The devices' CUDA numbers, and the index of the current one, which has the arrays.

        It comes last where it is none of the devices. None for devices that share memory.
        """
        if self.arrays == "numpy":
            return (), None
        numbers, here = list(map(registry.cuda_number, self.names)), cupy_arrays.current_device()
        if here not in numbers:
            numbers.append(here)
        return tuple(numbers), numbers.index(here)

    def rates(self, md_hom: MDHom) -> tuple[float, ...]:
        """The relative speeds of the devices.

        They are the caller's weights, else inverse times of the whole: measured, where it
        was tuned on all of them, otherwise as the cost model expects.
        """
        if self.weights is not None:
            return self.weights
        engines = self.engines()
        if len({engine.target for engine in engines}) == 1:
            return (1.0,) * len(engines)
        return tuple(1 / seconds for seconds in _seconds(engines, md_hom))

    def link(
        self, md_hom: MDHom, numbers: Sequence[int], home: int, streams: PeerStreams
    ) -> Link | None:
        """The link for copies from the home device: its rate, and the home device's own seconds.

        None where the caller said the shares, and where it is none of the devices.
        """
        if self.weights is not None or home >= len(self.names) or len(self.names) < 2:
            return None
        rate = streams.link_rate(numbers[home], numbers[home - 1])
        if rate is None:
            return None
        return Link(_seconds([self.engines()[home]], md_hom)[0], rate)


def _seconds(engines: Sequence[Engine], md_hom: MDHom) -> list[float]:
    """Each device's seconds for the whole: measured if tuned on all of them, else estimated."""
    problems = [engine.problem_of(md_hom) for engine in engines]
    pairs = list(zip(engines, problems, strict=True))
    winners = [engine.winner(problem) for engine, problem in pairs]
    measured = [winner[0].seconds for winner in winners if winner is not None]
    if len(measured) == len(pairs):
        return measured
    expected: dict[Any, float] = {}
    for engine, problem in pairs:
        target = engine.target
        if target not in expected:  # of general kernels, GPUs' have no estimate
            ranking = ranked(problem, target, general=target.kind == "cpu", most=1)
            expected[target] = ranking[0][0]
    return [expected[engine.target] for engine in engines]


def _key(said: Any, arrays: str) -> Hashable:
    """The cache key of a caller's `devices` argument; None where it is not hashable."""
    kind = _type_of(said)
    if kind not in (str, dict, list, tuple):
        return None
    key = arrays, kind, tuple(said.items() if kind is dict else said)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _found() -> list[UsableDevice]:
    try:
        return found_devices()
    except NoDeviceError as error:
        raise DeviceError(error.message, notes=error.notes, hint=error.hint) from error


def _all(said: str, arrays: str, fitting: Sequence[UsableDevice]) -> tuple[str, ...]:
    if said != "all":
        raise DeviceError(f"devices is {shown(said)}", hint=_HINT)
    if len(fitting) < 2:
        raise DeviceError(
            f"devices='all' is for two devices or more, and {len(fitting)} computes {arrays}"
            " arrays",
            notes=_available(fitting),
            hint="leave devices= out: the call computes on the device there is",
        )
    return tuple(found.name for found in fitting)


def _called(name: Any, arrays: str, fitting: Sequence[UsableDevice]) -> str:
    """The full name of the first device that a name matches."""
    if not isinstance(name, str):
        raise DTypeError(f"{shown(name)} is no name of a device", hint=_HINT)
    for found in fitting:
        if found.is_called(name):
            return found.name
    raise DeviceError(
        f"no device for {arrays} arrays is called {shown(name)}",
        notes=_available(fitting),
        hint="name a part of one of these" if fitting else None,
    )


def _available(fitting: Sequence[UsableDevice]) -> list[str]:
    return [f"available: {found.name}" for found in fitting]


def _weight(name: str, given: Any) -> float:
    weight = real(f"the weight of {shown(name)}", given)
    if not 0 < weight < float("inf"):
        raise DeviceError(
            f"the weight of {shown(name)} is {shown(given)}",
            hint="a number above 0: a device with twice the weight gets twice the indices",
        )
    return weight
