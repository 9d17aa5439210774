"""Numbers of bytes, as people are shown them."""

import pytest

from horizon_app.contracts.sizes import show_bytes


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (3 << 29, "1.5 GiB"), (25_137_000_000, "23.41 GiB"),
     (5 << 40, "5 TiB"), (5 << 50, "5120 TiB")],
)  # fmt: skip
def test_bytes_are_shown_with_four_digits_and_a_binary_unit(num_bytes: int, shown: str) -> None:
    assert show_bytes(num_bytes) == shown
