"""Numbers of bytes: as a spec writes them, and as people are shown them."""

import re

_FACTORS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_UNITS = {"": 1, "b": 1, **{unit.lower(): factor for unit, factor in _FACTORS.items()}}
_SIZE = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*$")
_SHOWN = ("B", *_FACTORS, "TiB")


def parse_size(value: object) -> int:
    """Bytes of `16MiB`, `1.5 GiB`, `4096` or a whole number. Raises ValueError on anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a size; write for example 16MiB, 12GiB or a whole number of bytes")
    match = _SIZE.match(str(value))
    if match is None or match.group(2).lower() not in _UNITS:
        raise ValueError(f"{value!r} is not a size; units are KiB, MiB and GiB, for example 16MiB")
    size = float(match.group(1)) * _UNITS[match.group(2).lower()]
    if size != int(size) or size <= 0:
        raise ValueError(f"{value!r} is not a whole, positive number of bytes")
    return int(size)


def format_size(size: int) -> str | int:
    """The shortest exact spelling of a number of bytes, for example 16MiB."""
    for unit, factor in reversed(_FACTORS.items()):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return size


def show_bytes(num_bytes: float) -> str:
    """About so many bytes, for people: four digits and a unit, for example 12.5 MiB or 23.41 GiB."""
    power = next((p for p in range(len(_SHOWN)) if num_bytes < 1024 ** (p + 1)), len(_SHOWN) - 1)
    return f"{num_bytes / 1024**power:.4g} {_SHOWN[power]}"
