"""The header in front of every page on disk, by which a page that is not what was last written is known."""

import struct

import xxhash

from horizon_app.engine.errors import DiskCorrupt

MAGIC = b"HRZNPAGE"
FORMAT_VERSION = 1
_FIELDS = struct.Struct("<8sIIQQQ")  # magic, format version, page, generation, bytes of data, checksum of the data
_CHECKSUM = struct.Struct("<Q")  # of the fields


def checksum(data: memoryview) -> int:
    """xxh3_64 of the data."""
    digest = xxhash.xxh3_64()
    digest.update(data)  # unlike the one-call function, this lets other threads run meanwhile
    return digest.intdigest()


def fill_header(header: memoryview, *, page: int, generation: int, data: memoryview) -> None:
    """Write the header of `data`, which is about to be written as the page's `generation`-th content."""
    _FIELDS.pack_into(header, 0, MAGIC, FORMAT_VERSION, page, generation, len(data), checksum(data))
    _CHECKSUM.pack_into(header, _FIELDS.size, checksum(header[: _FIELDS.size]))


def page_of(header: memoryview) -> int | None:
    """The page that a header names, None where it is no header."""
    magic, _, page, *_ = _FIELDS.unpack_from(header)
    return page if magic == MAGIC else None


def check_page(header: memoryview, *, page: int, generation: int, data: memoryview) -> None:
    """Raise DiskCorrupt unless header and data are what was last written to the page."""

    def check(what: str, expected: object, found: object) -> None:
        if expected != found:
            raise DiskCorrupt(page=page, expected=f"{what} {expected}", found=f"{found}")

    magic, version, found_page, found_generation, num_bytes, data_checksum = _FIELDS.unpack_from(header)
    (header_checksum,) = _CHECKSUM.unpack_from(header, _FIELDS.size)
    check("magic", MAGIC, magic)
    check("format version", FORMAT_VERSION, version)
    check("header checksum", f"{checksum(header[: _FIELDS.size]):016x}", f"{header_checksum:016x}")
    check("page number", page, found_page)
    # The generation rises with each write, so that a write which never reached the disk does not pass as done.
    check("generation", generation, found_generation)
    check("length", len(data), num_bytes)
    check("data checksum", f"{data_checksum:016x}", f"{checksum(data):016x}")
