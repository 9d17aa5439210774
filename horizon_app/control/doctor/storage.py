"""The home folder's disk: room, kind of file system, speed; and the database on it."""

import contextlib
import mmap
import os
import shutil
import time
from pathlib import Path

import psutil

from horizon_app.contracts.checks import Check, Verdict
from horizon_app.contracts.sizes import show_bytes
from horizon_app.control.doctor.kernel import check
from horizon_app.settings import AppSettings
from horizon_app.store.integrity import faults_of_database

_FEW_FREE_BYTES, _TOO_FEW_FREE_BYTES = 20 << 30, 1 << 30
_VOLATILE = {"tmpfs", "ramfs"}
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "ceph", "fuse.glusterfs", "lustre", "afs", "9p"}
_PROBE_BYTES = 32 << 20
_PIECE_BYTES = 4 << 20
_SLOW_BYTES_PER_S = 200e6


def storage_checks(settings: AppSettings) -> list[Check]:
    """Room, file system, speed, database."""
    folder = _existing(settings.home)
    return [_space(folder), _file_system(folder, settings), _speed(folder), _database(settings)]


def _existing(path: Path) -> Path:
    """The folder itself, or the nearest one above it that is there: where it would be made."""
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _space(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    fault = None
    if free < _FEW_FREE_BYTES:
        verdict = Verdict.PROBLEM if free < _TOO_FEW_FREE_BYTES else Verdict.WARNING
        fault = verdict, "checkpoints take 12 bytes a parameter each: delete old runs, or use another --home"
    threshold = f"{show_bytes(_FEW_FREE_BYTES)} or more"
    return check(
        "disk_space", "Disk space", evidence=f"{show_bytes(free)} free at {folder}", threshold=threshold, fault=fault
    )


def _file_system(folder: Path, settings: AppSettings) -> Check:
    kind, mounted_at = _mount(folder)
    evidence, threshold = f"{kind or 'unknown'}, mounted at {mounted_at}", "a local one that outlives a restart"
    fault = None
    if kind in _VOLATILE:
        fault = Verdict.WARNING, "it lies in memory and is gone after a restart: use a --home on a disk"
    elif kind in _NETWORK and settings.database_url is None:
        fault = Verdict.PROBLEM, "SQLite's log does not work across a network: use a local --home, or PostgreSQL"
    elif kind in _NETWORK:
        fault = Verdict.WARNING, "checkpoints and the disk tier go over the network: use a --home on a local disk"
    return check("file_system", "File system", evidence=evidence, threshold=threshold, fault=fault)


def _mount(folder: Path) -> tuple[str, str]:
    """Kind and place of the file system that a folder lies on."""
    place = folder.resolve()
    mounts = [(Path(one.mountpoint), one.fstype) for one in psutil.disk_partitions(all=True)]
    around = [(path, kind) for path, kind in mounts if place.is_relative_to(path)]
    path, kind = max(around, key=lambda found: len(found[0].parts), default=(Path("/"), ""))
    return kind, str(path)


def _speed(folder: Path) -> Check:
    threshold = f"{_SLOW_BYTES_PER_S / 1e6:.0f} MB/s both ways, where a disk tier is used"
    if shutil.disk_usage(folder).free < 4 * _PROBE_BYTES:
        return check("disk_speed", "Disk speed", evidence="no room to try", threshold=threshold, fault=None)
    try:
        direct, write_s, read_s = measure_disk(folder)
    except OSError as error:
        fault = Verdict.PROBLEM, f"make {folder} writable for this user, or use another --home"
        return check("disk_speed", "Disk speed", evidence=str(error), threshold=threshold, fault=fault)
    write, read = _PROBE_BYTES / write_s, _PROBE_BYTES / read_s
    fault = None
    if direct and min(write, read) < _SLOW_BYTES_PER_S:
        fault = Verdict.WARNING, "a disk tier would hold up training: put offload.disk_path on an SSD"
    way = "past the cache" if direct else "through the cache, so the disk itself may be slower"
    evidence = f"writes {write / 1e6:,.0f} MB/s, reads {read / 1e6:,.0f} MB/s ({show_bytes(_PROBE_BYTES)}, {way})"
    return check("disk_speed", "Disk speed", evidence=evidence, threshold=threshold, fault=fault)


def measure_disk(folder: Path) -> tuple[bool, float, float]:
    """Whether the cache could be passed by, and the seconds to write and to read `_PROBE_BYTES`. Raises OSError."""
    path = folder / f".horizon-probe-{os.getpid()}"
    try:
        try:
            return True, *_timed(path, os.O_DIRECT)
        except OSError:  # not every file system does that
            return False, *_timed(path, 0)
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _timed(path: Path, flag: int) -> tuple[float, float]:
    with mmap.mmap(-1, _PIECE_BYTES) as piece:  # whole pages, as O_DIRECT demands
        piece.write(os.urandom(1 << 16) * (_PIECE_BYTES >> 16))
        began = time.perf_counter()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flag, 0o600)
        try:
            for _ in range(_PROBE_BYTES // _PIECE_BYTES):
                os.write(fd, piece)
            os.fsync(fd)
        finally:
            os.close(fd)
        written = time.perf_counter()
        fd = os.open(path, os.O_RDONLY | flag)
        try:
            while os.readv(fd, [piece]):
                pass
        finally:
            os.close(fd)
        return written - began, time.perf_counter() - written


def _database(settings: AppSettings) -> Check:
    if settings.database_url is None and not settings.database_path.exists():
        return check("database", "Database", evidence="none yet: the first start makes it", fault=None)
    where, faults = faults_of_database(settings)
    fix = "stop the server, keep a copy of the file, and go back to a backup (`horizon db backup` makes them)"
    return check(
        "database", "Database", evidence="; ".join(faults[:5]) or f"{where} is whole", threshold="no fault",
        fault=(Verdict.PROBLEM, fix) if faults else None,
    )  # fmt: skip
