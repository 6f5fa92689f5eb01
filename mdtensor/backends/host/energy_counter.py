"""Energy used by the processor packages, by Linux's RAPL counters if readable."""

from __future__ import annotations

from pathlib import Path

from mdtensor.dataclass import dataclass

POWERCAP = Path("/sys/class/powercap")
_JOULES = 1e-6


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """RAPL counters of all packages, in microjoules, and the values at which they wrap.

    What others run at the time is counted as well.
    """

    packages: tuple[tuple[Path, int], ...]

    @staticmethod
    def found(root: Path = POWERCAP) -> EnergyCounter | None:
        """The machine's counters; None if there are none, or they are unreadable."""
        packages: list[tuple[Path, int]] = []
        try:
            for folder in sorted(root.glob("intel-rapl:*")):
                if folder.name.count(":") == 1:  # the others are parts of packages
                    _number(folder / "energy_uj")
                    limit = _number(folder / "max_energy_range_uj")
                    packages.append((folder / "energy_uj", limit))
        except (OSError, ValueError):
            return None
        return EnergyCounter(tuple(packages)) if packages else None

    def read(self) -> tuple[int, ...]:
        """The current counter values, in microjoules."""
        return tuple(_number(path) for path, _ in self.packages)

    def joules_since(self, before: tuple[int, ...]) -> float:
        """Joules used since `read`, valid for less than one wrap of a counter."""
        taken = 0
        for (_, limit), then, now in zip(self.packages, before, self.read(), strict=True):
            taken += now - then if now >= then else limit - then + now
        return taken * _JOULES


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))
