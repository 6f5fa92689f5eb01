"""Lines for exchange between work-items of a warp (shuffles) and between groups (atomics)."""

from __future__ import annotations

from typing import TypeAlias

from mdtensor.errors import LoweringError
from mdtensor.kernels.dialect import Dialect
from mdtensor.lower.ir.group_statements import (
    Arrive,
    Atomic,
    Await,
    AwaitCluster,
    BeginCluster,
    ClusterArrive,
    ClusterLeaderPointer,
    Post,
    WarpShuffle,
)
from mdtensor.lower.ir.loop_nest import LoopNest


def taken_number(nest: LoopNest, dialect: Dialect) -> list[str]:
    """The lines that number groups in the order in which they start; [] for other kernels."""
    count = nest.groups.constant
    if not nest.in_order:
        return []
    if count is None:
        raise LoweringError("groups that begin in order need a number of groups that is known")
    span = max(4, 1 << (count - 1).bit_length())
    alone = dialect.in_order_alone if nest.threads == 1 else ()
    lines = alone or dialect.in_order
    return [line.format(span=span, last=count - 1) for line in lines]


ExchangeStatement: TypeAlias = (
    WarpShuffle
    | Atomic
    | Arrive
    | Post
    | Await
    | BeginCluster
    | AwaitCluster
    | ClusterLeaderPointer
    | ClusterArrive
)


def exchange_lines(statement: ExchangeStatement, dialect: Dialect) -> list[str]:
    """The lines of a statement that exchanges values."""
    match statement:
        case BeginCluster():
            return _of_cluster("begin", dialect)
        case AwaitCluster():
            return _of_cluster("await", dialect)
        case ClusterLeaderPointer(name, buffer, memory):
            kind = dialect.types[memory.name]
            return _of_cluster("of_first", dialect, name=name, buffer=buffer, type=kind)
        case ClusterArrive(name, number):
            return _of_cluster("meet", dialect, name=name, number=repr(number))
        case Arrive(name, counter, count):
            places = {"name": name, "counter": repr(counter), "count": repr(count)}
            return [line.format(**places) for line in dialect.arrive]
        case Atomic(op, buffer, memory, index, value):
            form = dialect.atomics[op, memory.itemsize]
            place, kind = f"{buffer} + ({index!r})", dialect.types[memory.name]
            return [form.format(place=place, value=value.name, type=kind)]
        case WarpShuffle():
            return _exchange(statement, dialect)
        case Post():
            return _post(statement, dialect)
        case Await():
            return _await(statement, dialect)


def cluster_attribute(nest: LoopNest, dialect: Dialect) -> str:
    """The cluster attribute of a kernel; "" without thread-block clusters."""
    if nest.cluster == 1:
        return ""
    return _of_cluster("attribute", dialect, count=str(nest.cluster))[0]


def _of_cluster(what: str, dialect: Dialect, **places: str) -> list[str]:
    if not dialect.cluster:
        raise LoweringError(f"{dialect.name} has no clusters of groups")
    return [line.format(**places) for line in dialect.cluster[what]]


def _exchange(exchange: WarpShuffle, dialect: Dialect) -> list[str]:
    forms = dialect.exchange
    places = zip(exchange.refs, exchange.values, exchange.buffers, exchange.offsets, strict=True)
    parts = [
        {
            "type": dialect.types[ref.dtype.name],
            "name": ref.name,
            "value": value.name,
            "buffer": buffer,
            "offset": offset,
            "item": "item",
            "lane": exchange.lane,
            "width": exchange.width,
            "last": exchange.items - 1,
        }
        for ref, value, buffer, offset in places
    ]
    lines = [forms["wait"], *(forms["put"].format(**part) for part in parts), forms["wait"]]
    lines += [forms[exchange.kind].format(**part) for part in parts]
    return [line for line in lines if line]


def _post(post: Post, dialect: Dialect) -> list[str]:
    word, place = dialect.words
    tag = f"({word})(epoch * 4u + {post.state}u) << 32"
    lines: list[str] = []
    for value in post.values:
        form = dialect.bits.get(value.dtype.name, ("{}", ""))[0]
        bits = f"({word}){form.format(value.name)}"
        for shift in range(0, 8 * value.dtype.itemsize, 32):
            half = f"({bits} >> {shift} & 0xffffffffu)"
            index = repr(post.word + len(lines))
            lines.append(f"{place.format(index=index)} = {tag} | {half};")
    return lines


def _await(wait: Await, dialect: Dialect) -> list[str]:
    """Lines that spin until all words of a tuple have this launch's epoch and one state."""
    (word, place), index = dialect.words, dialect.index
    halves = [max(1, ref.dtype.itemsize // 4) for ref in wait.refs]
    seen = [f"{wait.state}_{n}" for n in range(sum(halves))]
    reads = [
        f"  {name} = {place.format(index=repr(wait.word + n))};" for n, name in enumerate(seen)
    ]
    differs = [f"{name} >> 32 != {seen[0]} >> 32" for name in seen[1:]]
    other = [f"{seen[0]} >> 34 != epoch", f"({seen[0]} >> 32 & 3) == 0", *differs]
    lines = [f"{word} {', '.join(seen)};", "do {", *reads, f"}} while ({' || '.join(other)});"]
    lines.append(f"const {index} {wait.state} = {seen[0]} >> 32 & 3;")
    for ref, count in zip(wait.refs, halves, strict=True):
        low, *high = seen[:count]
        seen = seen[count:]
        bits = f"({dialect.types['uint32']}){low}" + "".join(f" | {name} << 32" for name in high)
        form = dialect.bits.get(ref.dtype.name, ("", "{}"))[1]
        kind = dialect.types[ref.dtype.name]
        lines.append(f"const {kind} {ref.name} = ({kind}){form.format(f'({bits})')};")
    return lines
