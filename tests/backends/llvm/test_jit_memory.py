"""What there is of programs that ended, and of what compiled and linked them."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from mdtensor.backends.llvm.jit_compiler import _MOST_OF_LINKER, JitCompiler
from mdtensor.backends.llvm.object_compiler import _MOST_OF_CONTEXT


class Seen:
    """llvmlite's binding, and by name all that its functions made."""

    def __init__(self, binding: Any) -> None:
        self._binding = binding
        self.made: dict[str, list[weakref.ref[Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._binding, name)
        return self._noting(name, found) if name.startswith(("create_", "parse_")) else found

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **options: Any) -> Any:
            made = function(*given, **options)
            self.made.setdefault(name, []).append(weakref.ref(made))
            return made

        return noted

    def there(self) -> Counter[str]:
        """How many of each there are."""
        gc.collect()
        return Counter(name for name, made in self.made.items() for each in made if each())


def text_of(number: int) -> str:
    product = f"%y = fmul double %x, {number + 0.5!r}"
    return f"define double @kernel(double %x) {{\n  {product}\n  ret double %y\n}}\n"


def test_programs_that_ended_leave_nothing_but_a_linker_and_a_context() -> None:
    """LLVM keeps 9 kB of each program until its linker ends, and some of a module's context."""
    jit = JitCompiler()
    jit.llvm = jit._objects.llvm = seen = Seen(jit.llvm)
    libraries: list[weakref.ref[Any]] = []

    def program(number: int) -> float:
        code = jit.object_code(text_of(number), hasty=number % 2 == 0)
        (address,), library = jit.addresses(code, ["kernel"])
        libraries.append(weakref.ref(library))
        return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(2.0)

    count = 2 * _MOST_OF_CONTEXT + 1
    for number in range(count):
        assert program(number) == 2 * (number + 0.5)
    once = {name: 2 for name in seen.made if name.startswith(("create_p", "create_new"))}  # recipes
    assert seen.there() == {**once, "create_lljit_compiler": 1, "create_context": 1}
    assert not any(library() for library in libraries)
    made = {name: len(each) for name, each in seen.made.items()}
    assert made == {
        **once,
        "create_lljit_compiler": -(-count // _MOST_OF_LINKER),
        "create_context": 3,
        "parse_assembly": count,
    }


def test_programs_outlive_others_of_their_linker() -> None:
    jit = JitCompiler()
    code = jit.object_code(text_of(3))
    kept = [jit.addresses(code, ["kernel"]) for _ in range(100)][::7]
    gc.collect()
    for (address,), _ in kept:
        assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(2.0) == 7.0
