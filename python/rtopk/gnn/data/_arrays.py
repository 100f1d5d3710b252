"""Reads arrays from .npy and .npz files of unknown origin.

Nothing is unpickled. Headers are read first: callers compare types and shapes with what the graph needs, and their
sizes with the memory of this machine. Only then are the arrays that are needed decompressed.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._text import short
from .dataset import GraphError

_MAX_HEADER = 10_000  # bytes; numpy's own limit
_CHUNK = 1 << 24  # bytes read at a time
_MAX_NAMES = 20  # names of arrays in a message


@dataclass(frozen=True)
class Head:
    """The header of an array."""

    dtype: np.dtype
    shape: tuple[int, ...]
    fortran: bool
    start: int  # of its elements, in bytes

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{len(self.shape)}-dimensional {short(str(self.dtype)).strip(chr(39))}"


class ArrayFile:
    """The wanted arrays of an .npz file, by name; or the single array of an .npy file, under the name ""."""

    def __init__(self, path: Path, wanted: Sequence[str] = ("",)) -> None:
        self.path = path
        self.heads: dict[str, Head] = {}
        self._archive: zipfile.ZipFile | None = None
        try:
            self._open(wanted)
        except BaseException as error:
            self.close()
            raise self._refused(error) from error

    def _refused(self, error: BaseException) -> BaseException:
        # numpy and zipfile raise errors of many types for broken files.
        if isinstance(error, GraphError) or not isinstance(error, Exception):
            return error
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return GraphError(f"{self.path} cannot be read: {reason}")

    def _open(self, wanted: Sequence[str]) -> None:
        single = list(wanted) == [""]
        self._file = open_plain(self.path)
        start = self._file.read(4)
        self._file.seek(0)
        if start == b"\x93NUM":
            if not single:
                raise GraphError(f"{self.path} holds one array without a name; accepted: what numpy.savez writes")
            self.heads[""] = _head(self._file, os.fstat(self._file.fileno()).st_size)
            return
        self._archive = zipfile.ZipFile(self._file)
        if single:
            raise GraphError(f"{self.path} holds arrays with names; accepted: what numpy.save writes")
        members = self._archive.infolist()
        _check_members(members, self._archive.start_dir)
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in wanted and name != member.filename:
                if name in self._members:
                    raise ValueError(f"it has two arrays {name}")
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(f"{name} is compressed in a way that numpy.savez does not know")
                self._members[name] = member
        for name, member in self._members.items():
            with self._archive.open(member) as stream:
                self.heads[name] = _head(stream, member.file_size)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()
        if hasattr(self, "_file"):
            self._file.close()

    def need(self, *names: str) -> None:
        for name in names:
            if name not in self.heads:
                have = [other.removesuffix(".npy") for other in self._archive.namelist() if other.endswith(".npy")]
                more = "" if len(have) <= _MAX_NAMES else f" and {len(have) - _MAX_NAMES} more"
                listed = ", ".join(other[:60] for other in have[:_MAX_NAMES]) or "none"
                raise GraphError(f"{self.path} has no array {name}; it has {listed}{more}")

    def check_memory(self) -> None:
        """An error if the wanted arrays do not fit into memory together."""
        check_memory(self.path, sum(head.nbytes for head in self.heads.values()))

    def read(self, name: str = "") -> np.ndarray:
        head = self.heads[name]
        try:
            if self._archive is None:
                self._file.seek(0)
                return _elements(self._file, head)
            with self._archive.open(self._members[name]) as stream:
                return _elements(stream, head)
        except Exception as error:
            raise self._refused(error) from error


def open_plain(path: Path):
    """Opens a file for reading. Refuses pipes and devices, which may never end."""
    if path.exists() and not path.is_file():
        raise GraphError(f"{path} is not a plain file")
    return path.open("rb")


def check_memory(what: object, needed: int, accepted: str = "") -> None:
    """An error if something needs more memory than this machine has. `accepted`: what would need less."""
    if not hasattr(os, "sysconf"):
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        accepted = accepted and f"; accepted: {accepted}"
        raise GraphError(f"{what} needs {needed:,} bytes of memory, and this machine has {there:,}{accepted}")


def _check_members(members: list[zipfile.ZipInfo], end: int) -> None:
    """An error if members overlap: a small file could then decompress to any size."""
    ordered = sorted(members, key=lambda member: member.header_offset)
    starts = [member.header_offset for member in ordered[1:]] + [end]
    for member, following in zip(ordered, starts, strict=True):
        if member.header_offset + zipfile.sizeFileHeader + member.compress_size > following:
            raise ValueError(f"its member {short(member.filename)} overlaps with another")


def _head(stream, size: int) -> Head:
    """Reads the header of an array that takes `size` bytes with it."""
    magic = _exactly(stream, 8)
    if magic[:6] != b"\x93NUMPY":
        raise ValueError("a member is not an array")
    if magic[6:] not in (b"\x01\x00", b"\x02\x00"):
        raise ValueError(f"an array has version {magic[6]}.{magic[7]}; accepted: 1.0 and 2.0")
    first = magic[6] == 1
    length_bytes = _exactly(stream, 2 if first else 4)
    (length,) = struct.unpack("<H" if first else "<I", length_bytes)
    if length > _MAX_HEADER:
        raise ValueError(f"the header of an array has {length} bytes; accepted: up to {_MAX_HEADER}")
    text = io.BytesIO(length_bytes + _exactly(stream, length))
    parse = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = parse(text)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they would be unpickled")
    if not all(type(count) is int and count >= 0 for count in shape):
        raise ValueError(f"an array has shape {short(str(shape))}")
    head = Head(dtype, shape, bool(fortran), len(magic) + len(length_bytes) + length)
    if head.start + head.nbytes != size:
        raise ValueError(f"an array of {head.nbytes} bytes has {size - head.start}")
    return head


def _exactly(stream, count: int) -> bytes:
    content = stream.read(count)
    if len(content) != count:
        raise ValueError("it ends too early")
    return content


def _elements(stream, head: Head) -> np.ndarray:
    """Reads the elements of an array. An error unless the stream ends with them."""
    _exactly(stream, head.start)
    array = np.empty(math.prod(head.shape), head.dtype)
    if array.nbytes:
        rest = memoryview(array.view(np.uint8))
        while rest:
            count = stream.readinto(rest[:_CHUNK])
            if not count:
                raise ValueError("it ends too early")
            rest = rest[count:]
        if array.dtype.kind == "b" and array.view(np.uint8).max() > 1:
            raise ValueError("an array of bool has bytes other than 0 and 1")
    if stream.read(1):  # zipfile compares checksums when it reaches the end
        raise ValueError("it goes on after its end")
    return array.reshape(head.shape, order="F" if head.fortran else "C")
