"""Default layouts of images and filters, as frameworks have them."""

from __future__ import annotations

from typing import Any

from mdtensor.errors import ShapeError
from mdtensor.options import flag

_LAYOUTS = {
    3: "NCW,KCS->NKQ",
    4: "NCHW,KCRS->NKPQ",
    5: "NCDHW,KCTRS->NKZPQ",
}


def layout_of(rank: int, transposed: Any) -> str:
    """The default layout of images of a rank: channels first, as torch's.

    Of transposed convolutions, the filter's channels come first. Raises ShapeError for a rank that
    no image has.

    >>> layout_of(4, False)
    'NCHW,KCRS->NKPQ'
    """
    layout = _LAYOUTS.get(rank)
    if layout is None:
        raise ShapeError(
            f"the image has {rank} axes", hint="3 to 5: batch, channels, and space; or a layout"
        )
    return layout.replace(",KC", ",CK") if flag("transposed", transposed) else layout
