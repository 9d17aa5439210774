"""Moments in 8 bits: what is lost, what must not be, and that training does not mind."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from horizon_app.engine.errors import NonFiniteMoment
from horizon_app.engine.optim import moments8
from horizon_app.engine.optim.moments8 import (
    QUANT_BLOCK,
    pack_signed,
    pack_unsigned,
    packed_bytes,
    unpack_signed,
    unpack_unsigned,
)

Pack = Callable[[torch.Tensor, torch.Tensor, int, int, int], None]
Unpack = Callable[[torch.Tensor, int, int, int, torch.Tensor], None]
SIGNED, UNSIGNED = (pack_signed, unpack_signed), (pack_unsigned, unpack_unsigned)
BOTH = pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])


def packed(values: torch.Tensor, pack: Pack) -> torch.Tensor:
    plane = torch.zeros(packed_bytes(values.numel()), dtype=torch.uint8)
    pack(values, plane, 0, values.numel(), values.numel())
    return plane


def unpacked(plane: torch.Tensor, numel: int, unpack: Unpack) -> torch.Tensor:
    out = torch.full((numel,), torch.nan)
    unpack(plane, 0, numel, numel, out)
    return out


def round_trip(values: torch.Tensor, kind: tuple[Pack, Unpack]) -> torch.Tensor:
    return unpacked(packed(values, kind[0]), values.numel(), kind[1])


def moments(numel: int, *, signed: bool, seed: int = 0) -> torch.Tensor:
    """Values whose sizes spread over decades, as gradients' do."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(numel, generator=generator) * 10 ** torch.randn(numel, generator=generator)
    return values if signed else values.square()


def step_at(share: torch.Tensor, top: int) -> torch.Tensor:
    """How far codes lie apart around a share of the largest, seen from the upper one of the two."""
    code = share.double().abs().pow(0.25) * top
    return ((code + 1) / top).pow(4) - (code / top).pow(4)


@pytest.mark.parametrize(("numel", "num_bytes"), [(1, 8), (4, 8), (256, 260), (257, 268), (1024, 1040)])
def test_packed_plane_is_a_byte_each_and_aligned_scales(numel: int, num_bytes: int) -> None:
    assert packed_bytes(numel) == num_bytes


@BOTH
@pytest.mark.parametrize("numel", [1, 100, 256, 300, 5000])
def test_zero_bytes_are_zeros_and_zeros_stay_zeros(kind: tuple[Pack, Unpack], numel: int) -> None:
    plane = torch.zeros(packed_bytes(numel), dtype=torch.uint8)
    assert unpacked(plane, numel, kind[1]).tolist() == [0.0] * numel
    assert round_trip(torch.zeros(numel), kind).tolist() == [0.0] * numel


@BOTH
@pytest.mark.parametrize("size", [1e-18, 1e-6, 1.0, 1e30])
def test_round_trip_errs_by_less_than_a_step_between_codes(kind: tuple[Pack, Unpack], size: float) -> None:
    signed = kind is SIGNED
    values = moments(20 * QUANT_BLOCK + 40, signed=signed)
    values *= size / values.abs().max()
    back = round_trip(values, kind)
    padded = torch.zeros(21 * QUANT_BLOCK)
    padded[: values.numel()] = values
    scales = padded.view(-1, QUANT_BLOCK).abs().amax(1).repeat_interleave(QUANT_BLOCK)[: values.numel()].double()
    steps = step_at(values / scales, 127 if signed else 255) * scales
    error = (back.double() - values.double()).abs()
    assert (error <= steps * (0.51 if signed else 1.0) + 1e-6 * values.abs()).all()
    assert float(error.norm() / values.double().norm()) < 0.02


@BOTH
def test_round_trip_keeps_the_largest_of_each_run_to_the_bit(kind: tuple[Pack, Unpack]) -> None:
    values = moments(8 * QUANT_BLOCK, signed=kind is SIGNED)
    runs, back = values.view(-1, QUANT_BLOCK), round_trip(values, kind).view(-1, QUANT_BLOCK)
    largest = runs.abs().argmax(1, keepdim=True)
    assert torch.equal(back.gather(1, largest), runs.gather(1, largest))


def test_signed_round_trip_keeps_signs_and_is_symmetric() -> None:
    values = moments(4 * QUANT_BLOCK, signed=True)
    back = round_trip(values, SIGNED)
    assert ((back == 0) | (back.sign() == values.sign())).all()
    assert torch.equal(round_trip(-values, SIGNED), -back)


def test_unsigned_values_over_twelve_decades_stay_above_zero_and_never_shrink_far() -> None:
    values = torch.logspace(-12, 0, QUANT_BLOCK)
    values[::7] = 0.0
    back = round_trip(values, UNSIGNED)
    assert torch.equal(back > 0, values > 0)
    assert (back >= values / 16).all()  # a code too low at most, so an update at most 4 times as large
    tiny = values < 1.0 / 255**4
    assert (back[tiny] >= values[tiny]).all()  # up to the smallest code


@BOTH
@pytest.mark.parametrize("largest", [torch.finfo(torch.float32).max, 1e-30, 1e-42])
def test_extremes_of_fp32_round_trip_to_finite_values(kind: tuple[Pack, Unpack], largest: float) -> None:
    values = torch.linspace(0.0, 1.0, 2 * QUANT_BLOCK).mul_(largest)
    back = round_trip(values, kind)
    assert torch.isfinite(back).all()
    assert (back.double() <= max(largest * 1.04, 1e-36)).all()
    if kind is UNSIGNED:
        assert torch.equal(back > 0, values > 0)


@BOTH
@settings(max_examples=40, deadline=None)
@given(numel=st.integers(1, 1500), seed=st.integers(0, 10**6), size=st.integers(-35, 30))
def test_values_from_codes_pack_to_the_same_bits(kind: tuple[Pack, Unpack], numel: int, seed: int, size: int) -> None:
    values = moments(numel, signed=kind is SIGNED, seed=seed)
    once = round_trip(values * (10.0**size / values.abs().max()), kind)
    assert torch.equal(round_trip(once, kind), once)
    plane = packed(once, kind[0])
    assert torch.equal(packed(unpacked(plane, numel, kind[1]), kind[0]), plane)


@BOTH
@pytest.mark.parametrize("numel", [4 * QUANT_BLOCK, 4 * QUANT_BLOCK + 1, 5 * QUANT_BLOCK - 1])
@pytest.mark.parametrize("piece", [QUANT_BLOCK, 3 * QUANT_BLOCK, 1 << 17])
def test_plane_in_parts_equals_the_plane_at_once(
    kind: tuple[Pack, Unpack], numel: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = moments(numel, signed=kind is SIGNED)
    whole = packed(values, kind[0])
    back = unpacked(whole, numel, kind[1])
    monkeypatch.setattr(moments8, "PIECE", piece)
    parts = torch.zeros_like(whole)
    for start in (2 * QUANT_BLOCK, 0, 4 * QUANT_BLOCK):
        end = min(start + 2 * QUANT_BLOCK, numel)
        kind[0](values[start:end], parts, start, end, numel)
        out = torch.full((end - start,), torch.nan)
        kind[1](whole, start, end, numel, out)
        assert torch.equal(out, back[start:end])
    assert torch.equal(parts, whole)


@BOTH
def test_pack_leaves_the_values_and_the_rest_of_the_plane_alone(kind: tuple[Pack, Unpack]) -> None:
    values = moments(4 * QUANT_BLOCK, signed=kind is SIGNED)
    plane = packed(values, kind[0])
    back = unpacked(plane, values.numel(), kind[1])
    other = torch.ones(QUANT_BLOCK)
    kind[0](other, plane, QUANT_BLOCK, 2 * QUANT_BLOCK, values.numel())
    assert (other == 1.0).all()
    back[QUANT_BLOCK : 2 * QUANT_BLOCK] = 1.0
    assert torch.equal(unpacked(plane, values.numel(), kind[1]), back)


@BOTH
@pytest.mark.parametrize(("start", "end"), [(128, 256), (0, 300), (256, 511)])
def test_part_that_cuts_a_run_is_refused(kind: tuple[Pack, Unpack], start: int, end: int) -> None:
    plane = torch.zeros(packed_bytes(512), dtype=torch.uint8)
    with pytest.raises(AssertionError, match="cut a run"):
        kind[0](torch.zeros(end - start), plane, start, end, 512)


@BOTH
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_values_that_are_not_finite_are_refused_and_not_stored(kind: tuple[Pack, Unpack], bad: float) -> None:
    values = torch.ones(3 * QUANT_BLOCK)
    values[QUANT_BLOCK + 3] = bad
    plane = torch.zeros(packed_bytes(values.numel()), dtype=torch.uint8)
    with pytest.raises(NonFiniteMoment, match=r"precision\.optimizer_state"):
        kind[0](values, plane, 0, values.numel(), values.numel())
    assert not plane.any()


def test_second_moment_whose_gradients_became_smaller_follows_them_down() -> None:
    torch.manual_seed(0)
    size = torch.randn(4 * QUANT_BLOCK).exp()
    value, exact = torch.zeros_like(size), torch.zeros_like(size)
    for step in range(1500):
        if step == 500:
            size[::2] /= 10.0
        square = size * torch.randn(size.shape).square()
        value = round_trip(value * 0.995 + 0.005 * square, UNSIGNED)
        exact = exact * 0.995 + 0.005 * square
    ratio = value / exact
    assert float(ratio[::2].mean()) == pytest.approx(1.0, abs=0.05)
    assert float(ratio[1::2].mean()) == pytest.approx(1.0, abs=0.05)


class _Trainer:
    """A small classifier with rare inputs, trained by torch's fused AdamW with moments kept as told."""

    def __init__(self, *, eight_bits: bool) -> None:
        self._eight_bits = eight_bits
        self._data = torch.Generator().manual_seed(1)
        torch.manual_seed(0)
        self._often = 1.0 / torch.arange(1, 61)
        self._answers = torch.softmax(torch.randn(60, 20) * 2.0, dim=1)
        self._embedding, self._last = torch.nn.Embedding(60, 24), torch.nn.Linear(24, 20)
        self._weights = [*self._embedding.parameters(), *self._last.parameters()]
        self._first = [self._zeros(w) for w in self._weights]
        self._second = [self._zeros(w) for w in self._weights]

    def _zeros(self, weight: torch.Tensor) -> torch.Tensor:
        numel = weight.numel()
        return torch.zeros(packed_bytes(numel), dtype=torch.uint8) if self._eight_bits else torch.zeros(numel)

    def run(self, steps: int) -> list[float]:
        return [self._step(step) for step in range(1, steps + 1)]

    def _step(self, step: int) -> float:
        inputs = torch.multinomial(self._often, 64, replacement=True, generator=self._data)
        answers = torch.multinomial(self._answers[inputs], 1, generator=self._data)[:, 0]
        loss = torch.nn.functional.cross_entropy(self._last(torch.tanh(self._embedding(inputs))), answers)
        gradients = torch.autograd.grad(loss, self._weights)
        for index, gradient in enumerate(gradients):
            numel = gradient.numel()
            first, second = self._first[index], self._second[index]
            if self._eight_bits:
                first, second = unpacked(first, numel, unpack_signed), unpacked(second, numel, unpack_unsigned)
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                [self._weights[index].detach().view(-1)], [gradient.reshape(-1)], [first], [second], [],
                [torch.tensor(float(step))], lr=1e-2, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8,
                amsgrad=False, maximize=False,
            )  # fmt: skip
            if self._eight_bits:
                pack_signed(first, self._first[index], 0, numel, numel)
                pack_unsigned(second, self._second[index], 0, numel, numel)
        return loss.item()


def test_training_with_moments_of_8_bits_reaches_the_loss_of_fp32() -> None:
    exact, coarse = _Trainer(eight_bits=False).run(300), _Trainer(eight_bits=True).run(300)
    end, coarse_end = sum(exact[-50:]) / 50, sum(coarse[-50:]) / 50
    assert end < 0.8 * exact[0]
    assert coarse != exact
    assert abs(coarse_end / end - 1.0) < 0.01
