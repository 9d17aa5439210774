"""The product of a transpose is the same, whether its operand is laid out anew or not."""

import pytest
import torch

from horizon_app.engine.model import transposition
from horizon_app.engine.model.transposition import ENOUGH_COLUMNS, multiply_transposed

FEW, MANY = ENOUGH_COLUMNS - 1, ENOUGH_COLUMNS
HALF_STEP = 2.0**-8  # of a number in bf16, relative


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("has_amx", [True, False])
@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("columns", [FEW, MANY])
@pytest.mark.parametrize(("inner", "rows"), [(1, 1), (64, 5), (65, 3), (130, 40)])
def test_product_of_a_transpose_is_that_of_the_numbers_rounded_once(
    has_amx: bool, inner: int, rows: int, columns: int, out_dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transposition, "_HAS_AMX", has_amx)  # what is laid out then is right on any processor
    a, b = numbers(inner, rows + 7).bfloat16()[:, 4 : 4 + rows], numbers(inner, columns, seed=1).bfloat16()
    out = torch.full((rows, columns), float("nan"), dtype=out_dtype)
    multiply_transposed(a, b, out)
    exact = a.double().t() @ b.double()
    assert bool(((out.double() - exact).abs() <= HALF_STEP * exact.abs() + 1e-4).all())


def test_product_in_pieces_is_the_same_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transposition, "_HAS_AMX", True)
    a, b = numbers(96, 50).bfloat16(), numbers(96, MANY, seed=1).bfloat16()
    whole, pieces = (torch.empty(50, MANY, dtype=torch.bfloat16) for _ in range(2))
    multiply_transposed(a, b, whole)
    laid_out: list[int] = []
    real = transposition._laid_out

    def counted(part: torch.Tensor) -> torch.Tensor:
        laid_out.append(part.shape[1])
        return real(part)

    monkeypatch.setattr(transposition, "_laid_out", counted)
    monkeypatch.setattr(transposition, "MOST_COPIED", 96 * 20)
    multiply_transposed(a, b, pieces)
    assert laid_out == [20, 20, 10]
    assert torch.equal(whole, pieces)


@pytest.mark.parametrize(
    ("has_amx", "dtype", "columns"),
    [
        (True, torch.float32, MANY), (True, torch.float16, MANY), (True, torch.bfloat16, FEW),
        (False, torch.bfloat16, MANY),
    ],
)  # fmt: skip
def test_product_is_left_to_torch_where_a_copy_would_not_pay(
    has_amx: bool, dtype: torch.dtype, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transposition, "_HAS_AMX", has_amx)

    def never(part: torch.Tensor) -> torch.Tensor:
        raise AssertionError("laid out")

    monkeypatch.setattr(transposition, "_laid_out", never)
    a, b = numbers(30, 4).to(dtype), numbers(30, columns, seed=1).to(dtype)
    out = torch.empty(4, columns, dtype=dtype)
    multiply_transposed(a, b, out)
    assert torch.equal(out, torch.mm(a.t(), b))
