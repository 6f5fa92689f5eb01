"""The table of `mdtensor devices`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdtensor.api.cli.tables import size
from mdtensor.backends.select import found_devices, open_device
from mdtensor.errors import NoDeviceError

if TYPE_CHECKING:
    from rich.table import Table


def table_of_devices() -> Table:
    """All devices with the facts that schedules depend on; NoDeviceError where there is none.

    Where no device is the default, or one cannot be opened, the table's caption says why.
    """
    from rich.markup import escape
    from rich.table import Table

    table = Table("device", "arrays", "kind", box=None, header_style="bold")
    for heading in ("cores", "vector", "L1", "L2", "L3", "local"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("default")
    found = found_devices()
    default, why = None, list[str]()
    try:
        default = open_device().target
    except NoDeviceError as error:  # only others compute, or MDTENSOR_DEVICE names none
        why.append(error.message)
    for device in found:
        try:
            target = device.open().target
        except NoDeviceError as error:
            table.add_row(escape(device.name), device.arrays)
            why.append(error.message)
            continue
        memories = target.l1_bytes, target.l2_bytes, target.l3_bytes, target.local_bytes
        table.add_row(
            escape(device.name),
            device.arrays,
            target.kind,
            str(target.cores),
            f"{8 * target.vector_bytes} bit",
            *map(size, memories),
            "yes" if target == default else "",
        )
    if why:
        table.caption = escape("\n".join(dict.fromkeys(why)))
    return table
