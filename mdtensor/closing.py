"""Resources that are closed explicitly or by leaving a `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """What holds processes, threads or files until it is closed, as leaving a `with` does.

    >>> class Door(Closing):
    ...     def close(self):
    ...         print("closed")
    >>> with Door():
    ...     print("open")
    open
    closed
    """

    @abstractmethod
    def close(self) -> None:
        """Lets go of everything; a second time it does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
