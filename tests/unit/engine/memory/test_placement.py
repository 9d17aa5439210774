"""What leaves RAM first when not everything fits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.engine.errors import TierExhausted
from horizon_app.engine.memory.disk_io import SECTOR
from horizon_app.engine.memory.paged_plane import FEWEST_FRAMES
from horizon_app.engine.memory.placement import Placement, place_planes
from horizon_app.engine.memory.planes import PlaneName

PAGE, PAGES = 3 * SECTOR, 40
NAMES = [PlaneName.GRAD, PlaneName.WEIGHT, PlaneName.MASTER, PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ]
PLANES = {name: [PAGE] * PAGES for name in NAMES}
WHOLE = PAGE * PAGES
LEAST = len(NAMES) * FEWEST_FRAMES * PAGE
MOMENTS = (PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ)


def place(limit: int, *, may_page: bool = True, page_moments: bool = False) -> Placement:
    return place_planes(PLANES, limit, may_page=may_page, page_moments=page_moments, fix="take less")


def test_placement_that_fits_to_the_byte_stays_whole() -> None:
    made = place(5 * WHOLE, may_page=False)
    assert set(made.frames.values()) == {None}
    assert (made.host_bytes, made.uses_disk) == (5 * WHOLE, False)


def test_placement_one_byte_too_little_pages_a_moment_alone() -> None:
    made = place(5 * WHOLE - 1)
    paged = {name for name, frames in made.frames.items() if frames is not None}
    assert paged and paged <= set(MOMENTS)
    assert made.uses_disk
    assert made.host_bytes <= 5 * WHOLE - 1


def test_placement_planes_leave_in_the_order_of_their_use() -> None:
    """Each plane's share of RAM, as the limit falls: gradients shrink last."""
    ranks = [PlaneName.GRAD, PlaneName.WEIGHT, PlaneName.MASTER, PlaneName.EXP_AVG]
    for limit in range(LEAST, 5 * WHOLE, PAGE):
        frames = place(limit).frames
        shares = [PAGES if (count := frames[name]) is None else count for name in ranks]
        assert shares == sorted(shares, reverse=True), limit
        for higher, lower in itertools.pairwise(shares):
            assert higher >= PAGES - 1 or lower <= FEWEST_FRAMES + 1, (limit, shares)


def test_placement_moments_share_alike() -> None:
    for limit in range(LEAST, 5 * WHOLE, PAGE):
        first, second = (place(limit).frames[name] for name in MOMENTS)
        if first is not None and second is not None:
            assert abs(first - second) <= 1


def test_placement_smallest_legal_limit_gives_each_plane_the_fewest_frames() -> None:
    made = place(LEAST)
    assert set(made.frames.values()) == {FEWEST_FRAMES}
    assert made.host_bytes == LEAST


def test_placement_leaves_others_what_is_reserved_for_them() -> None:
    made = place_planes(PLANES, 5 * WHOLE, may_page=True, page_moments=False, reserved=WHOLE, fix="")
    assert made.host_bytes <= 4 * WHOLE
    with pytest.raises(TierExhausted) as refusal:
        place_planes(PLANES, LEAST + PAGE - 1, may_page=True, page_moments=False, reserved=PAGE, fix="")
    assert refusal.value.needed_bytes == LEAST + PAGE


def test_placement_one_byte_below_the_smallest_limit_is_refused_with_it() -> None:
    with pytest.raises(TierExhausted, match="take less") as refusal:
        place(LEAST - 1)
    assert (refusal.value.tier, refusal.value.needed_bytes, refusal.value.free_bytes) == ("host", LEAST, LEAST - 1)
    place(refusal.value.needed_bytes)


def test_placement_that_may_not_page_is_refused_with_all_that_it_needs() -> None:
    with pytest.raises(TierExhausted) as refusal:
        place(5 * WHOLE - 1, may_page=False)
    assert refusal.value.needed_bytes == 5 * WHOLE


@pytest.mark.parametrize("limit", [5 * WHOLE, 100 * WHOLE, 2 * WHOLE, LEAST])
def test_placement_with_paged_moments_keeps_few_of_them_even_where_all_would_fit(limit: int) -> None:
    made = place(limit, page_moments=True)
    for name in MOMENTS:
        frames = made.frames[name]
        assert frames is not None and FEWEST_FRAMES <= frames <= PAGES // 4
    assert made.host_bytes <= limit
    if limit >= 5 * WHOLE:
        assert {made.frames[name] for name in NAMES if name not in MOMENTS} == {None}


def test_placement_plane_of_few_pages_stays_whole_whatever_is_asked() -> None:
    few = {name: [PAGE] * FEWEST_FRAMES for name in NAMES}
    made = place_planes(few, 1 << 40, may_page=True, page_moments=True, fix="")
    assert set(made.frames.values()) == {None}


PLANE_SETS = st.dictionaries(
    st.sampled_from(list(PlaneName)), st.lists(st.integers(1, 5 * SECTOR), min_size=1, max_size=30), min_size=1
)


@given(PLANE_SETS, st.integers(0, 1 << 22), st.booleans())
def test_placement_never_passes_its_limit_and_refusals_name_one_that_works(
    planes: dict[PlaneName, list[int]], limit: int, page_moments: bool
) -> None:
    try:
        made = place_planes(planes, limit, may_page=True, page_moments=page_moments, fix="")
    except TierExhausted as refusal:
        assert refusal.needed_bytes > limit
        made = place_planes(planes, refusal.needed_bytes, may_page=True, page_moments=page_moments, fix="")
        assert made.host_bytes <= refusal.needed_bytes
        return
    assert made.host_bytes <= limit
    assert set(made.frames) == set(planes)
    held = 0
    for name, sizes in planes.items():
        frames, frame = made.frames[name], -(-max(sizes) // SECTOR) * SECTOR
        assert frames is None or frames >= FEWEST_FRAMES
        held += sum(sizes) if frames is None else frames * frame
    assert made.host_bytes == held
