"""Classes that are made quickly, beside those that the standard library makes of the same text."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from mdtensor.dataclass import dataclass

T = TypeVar("T")
OPTIONS = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "repr": False, "kw_only": True},
    {"slots": True, "weakref_slot": True},
]


def declared(decorate: Callable[..., Any], options: dict[str, bool]) -> tuple[Any, Any]:
    """A class with all sorts of fields, and one that has it as its base."""

    @decorate(**options)
    class Base(Generic[T]):
        """A base."""

        count: ClassVar[int] = 4
        first: int
        second: str = "b"
        third: list[T] = field(default_factory=list[Any])
        fourth: float = field(default=0.5, compare=False, repr=False)
        fifth: tuple[int, ...] = field(init=False, default=())

        def doubled(self) -> int:
            return 2 * self.first

    @decorate(**options)
    class Derived(Base[int]):
        """What has a base."""

        second: str = "c"
        last: int | None = field(default=None, kw_only=True)
        size: int = field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", self.first + len(self.third))

    return Base, Derived


def said(action: Callable[[], Any]) -> Any:
    """What an action gives, or the type and text of what it raises."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error)


def behaviour(kinds: tuple[Any, Any]) -> list[Any]:
    """What can be seen of classes and their instances."""
    seen: list[Any] = []
    for kind in kinds:
        for args, named in (
            [(1,), {}],
            [(1, "x", [2]), {}],
            [(), {"first": 3, "second": "z"}],
            [(), {"first": 3, "third": [1], "fourth": 2.0}],
            [(), {}],
            [(1,), {"fifth": (1,)}],
        ):
            made = said(lambda k=kind, a=args, n=named: k(*a, **n))
            if isinstance(made, tuple):
                seen.append(made[0])
                continue
            other = said(lambda k=kind, a=args, n=named: k(*a, **n))
            changed = dataclasses.replace(made, first=9)
            seen += [
                [getattr(made, each.name) for each in dataclasses.fields(made)],
                made == other,
                made != other,
                made == changed,
                made.__eq__(4) is NotImplemented,
                said(lambda m=made, o=other: hash(m) == hash(o)),
                said(lambda m=made: setattr(m, "first", 5)),
                said(lambda m=made: delattr(m, "second")),
                dataclasses.asdict(changed),
                dataclasses.astuple(changed),
                changed.doubled(),
                hasattr(made, "__dict__"),
            ]
        seen += [
            kind.__name__,
            kind.__qualname__,
            kind.__module__,
            kind.__doc__,
            kind.__match_args__,
            kind.count,
            kind.__dict__.get("__slots__"),
            kind.__hash__ is None,
            dataclasses.is_dataclass(kind),
            [
                (each.name, each.type, each.init, each.compare, each.repr, each.kw_only)
                for each in dataclasses.fields(kind)
            ],
            repr(kind.__dataclass_params__),
        ]
        if kind.__dataclass_params__.repr:
            seen.append(repr(kind(first=1, third=[2])))
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_classes_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    found = behaviour(declared(dataclass, options))
    expected = behaviour(declared(dataclasses.dataclass, options))
    assert found == expected


@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
def test_fields_have_any_names(options: dict[str, bool]) -> None:
    names = ["parameters", "set_parameters", "self", "default_x", "x", "MADE", "set_field", "cls"]
    space = {"__annotations__": dict.fromkeys(names, "int"), "x": 7, "MADE": field(default=8)}
    space |= dict.fromkeys(names[6:], 9)
    made = dataclass(**options)(type("Odd", (), space))(1, 2, 3, 4)
    assert [getattr(made, name) for name in names] == [1, 2, 3, 4, 7, 8, 9, 9]
    assert made == dataclasses.replace(made)
    assert made != dataclasses.replace(made, self=5)


@dataclass(frozen=True, slots=True)
class Point:
    """What pickle finds by its name."""

    x: int
    y: tuple[int, ...] = ()


@dataclass
class Own:
    """A class with methods of its own, which stay."""

    x: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


def test_instances_are_copied_and_pickled() -> None:
    point = Point(1, (2, 3))
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert other == point
        assert hash(other) == hash(point)
        assert repr(other) == "Point(x=1, y=(2, 3))"


def test_methods_of_a_class_stay() -> None:
    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("own", True, 7)


def test_patterns_have_the_order_of_fields() -> None:
    match Point(1, (2,)):
        case Point(x, (y,)):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("no match")


def test_subclasses_compare_with_their_own_fields() -> None:
    @dataclass(frozen=True, slots=True)
    class More(Point):
        z: int = 0

    assert More(1) != Point(1)
    assert More(1, z=1) != More(1, z=2)
    assert Point(1) == Point(1)  # each class has compiled its own
    assert len({More(1), More(1), More(1, z=1), Point(1)}) == 3


def test_values_that_hold_themselves_are_shown() -> None:
    @dataclass
    class Node:
        children: list[Any]

    node = Node([])
    node.children.append(node)
    assert repr(node).endswith("Node(children=[...])")


def test_the_standard_library_derives_from_these_classes() -> None:
    @dataclasses.dataclass(frozen=True)
    class More(Point):
        z: int = 0

    assert More(1, (), 2) == More(1, z=2)
    changing = type("Changing", (Point,), {})
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(changing)
