"""How much of each plane stays in RAM when not everything fits: what is needed most often leaves last."""

from collections.abc import Mapping
from dataclasses import dataclass

from horizon_app.engine.errors import TierExhausted
from horizon_app.engine.memory.disk_io import round_up
from horizon_app.engine.memory.paged_plane import FEWEST_FRAMES
from horizon_app.engine.memory.planes import PlaneName

LEAVE_LAST = (
    (PlaneName.GRAD,),
    (PlaneName.WEIGHT,),
    (PlaneName.MASTER,),
    (PlaneName.GRAD_AVERAGE,),
    (PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ),
)
"""Gradients are written and read by every micro-batch, weights are read twice a step, the rest once."""
MOMENTS = LEAVE_LAST[-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Frames in RAM of each plane; None: it lies in RAM whole."""

    frames: Mapping[PlaneName, int | None]
    host_bytes: int

    @property
    def uses_disk(self) -> bool:
        """Whether any plane is paged."""
        return any(frames is not None for frames in self.frames.values())


def place_planes(
    page_bytes: Mapping[PlaneName, list[int]], limit: int, *, may_page: bool, page_moments: bool, fix: str,
    reserved: int = 0,
) -> Placement:  # fmt: skip
    """Fill `limit` bytes of RAM, of which others need `reserved`. `page_moments` keeps few moments there in any case.

    Raises TierExhausted where not even the smallest number of frames fits; `fix` says what to do.
    """
    names = [name for group in LEAVE_LAST for name in group if name in page_bytes]
    whole = {name: sum(page_bytes[name]) for name in names}
    total = sum(whole.values())
    if total + reserved <= limit and not page_moments:
        return Placement(frames=dict.fromkeys(names), host_bytes=total)
    frame = {name: round_up(max(page_bytes[name])) for name in names}
    pages = {name: len(page_bytes[name]) for name in names}
    least = {name: min(whole[name], FEWEST_FRAMES * frame[name]) for name in names}
    needed = reserved + (sum(least.values()) if may_page else total)
    if needed > limit:
        raise TierExhausted(tier="host", needed_bytes=needed, free_bytes=limit, fix=fix)
    frames: dict[PlaneName, int | None] = {}
    left = limit - needed
    for group in LEAVE_LAST:
        members = [name for name in group if name in page_bytes]
        for i, name in enumerate(members):
            share = left // (len(members) - i)
            capped = page_moments and name in MOMENTS
            if whole[name] - least[name] <= share and not (capped and least[name] < whole[name]):
                frames[name] = None
                left -= whole[name] - least[name]
                continue
            most = max(FEWEST_FRAMES, pages[name] // 4) if capped else pages[name] - 1
            frames[name] = min(most, FEWEST_FRAMES + share // frame[name])
            left -= (frames[name] - FEWEST_FRAMES) * frame[name]  # type: ignore[operator]
    host = sum(whole[n] if (count := frames[n]) is None else count * frame[n] for n in names)
    return Placement(frames=frames, host_bytes=host)
