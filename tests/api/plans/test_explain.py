"""What people are told of a kernel."""

from __future__ import annotations

import mdtensor as mdt


def test_explain_shows_md_hom_schedule_cost_and_source() -> None:
    text = mdt.compile("ij,jk->ik", mdt.spec((64, 128)), mdt.spec((128, 32))).explain()
    for part in (
        "md_hom[i:64, j:128, k:32](mul, (cc, pw(add), cc))",
        "schedule (from the cost model, general kernel)",
        "estimated",
        "GFLOP/s",
        "kernel_0(",
    ):
        assert part in text
