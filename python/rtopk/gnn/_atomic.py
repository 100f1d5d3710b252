"""Files that are there whole or not at all, and folders in which one process writes at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import socket
import stat
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from ._text import Refusal, printable

LOCK = ".rtopk.lock"
# A file on its way to its name. Nobody else has a reason to use such a name: what is left of it belongs to a process
# that was killed.
_PART = re.compile(r"\.rtopk-[0-9a-f]{32}\.part")


class FolderInUse(Refusal):
    """A folder in which another process writes."""


def _cannot_write(path: Path, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot write {printable(path)}: {error.strerror or error}")


# ---- Writing ----


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Writes a file that is there whole or not at all, also after a power failure."""
    write_together([(path, content)])


def write_together(files: Sequence[tuple[Path, bytes | memoryview]]) -> None:
    """Writes several files. None of them takes its place, in their order, before all are safely on the disk: where one
    does not fit, all that was there before stays."""
    with contextlib.ExitStack() as stack:
        staged = []
        for path, content in files:
            with _named_errors(path):
                # The parts as they are on the disk; a link stays, and its file is replaced.
                target = Path(os.path.realpath(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, folder)
                staged.append((path, stack.enter_context(_Part(folder, target, content))))
        for path, part in staged:
            with _named_errors(path):
                part.take_its_place()


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _cannot_write(path, error) from error


def check_replaceable(path: Path) -> None:
    """An OSError if there is something that :func:`write_whole` would not replace."""
    with _named_errors(path):
        _replaced(Path(os.path.realpath(path)))


def _replaced(target: Path) -> os.stat_result | None:
    """What is about to be replaced: a plain file that may be written, or nothing."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EEXIST, "there is something of that name that is not a plain file")
    # For root everything is writable; but whoever took the right to write from a file wants to keep it.
    if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, "it is read-only")
    return status


class _Part:
    """A file on its way: written and flushed to the disk, with the mode and the owner of the one that it replaces."""

    def __init__(self, folder: int, target: Path, content: bytes | memoryview) -> None:
        self._folder, self._target = folder, target
        self._name: str | None = None  # none: it vanishes with its descriptor
        replaced = _replaced(target)
        self._file = self._open(0o666 if replaced is None else 0o600)
        try:
            if replaced is not None:
                _take_owner_and_mode(self._file, replaced)
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *_) -> None:
        self._close()

    def _open(self, mode: int) -> int:
        if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
            try:
                return os.open(".", os.O_TMPFILE | os.O_WRONLY, mode, dir_fd=self._folder)
            except OSError as error:
                # Not every file system has it.
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
                    raise
        name = _part_name()
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=self._folder)
        self._name = name
        return file

    def take_its_place(self) -> None:
        if self._name is None:
            # Only a name can replace a name.
            name = _part_name()
            os.link(f"/proc/self/fd/{self._file}", name, dst_dir_fd=self._folder, follow_symlinks=True)
            self._name = name
        os.rename(self._name, self._target.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = None
        _flush_folder(self._folder)

    def _close(self) -> None:
        if self._name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)
            self._name = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _part_name() -> str:
    return f".rtopk-{secrets.token_hex(16)}.part"


def _take_owner_and_mode(file: int, replaced: os.stat_result) -> None:
    own = os.fstat(file)
    if (own.st_uid, own.st_gid) != (replaced.st_uid, replaced.st_gid):
        try:
            os.fchown(file, replaced.st_uid, replaced.st_gid)
        except PermissionError as error:
            owner = f"user {replaced.st_uid}, group {replaced.st_gid}"
            raise OSError(error.errno, f"it would no longer belong to {owner}") from error
    os.fchmod(file, stat.S_IMODE(replaced.st_mode))  # last: a new owner clears some bits


def _flush_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing for folders
            raise


# ---- One at a time ----


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """For as long as it lasts, no other process (or thread) that asks for it writes into the folder, which is made
    where it is missing. It ends with the process, however that ends."""
    path = folder / LOCK
    with _named_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise OSError(errno.ENOTDIR, "it is a file; accepted: a folder for results")
        folder.mkdir(parents=True, exist_ok=True)
    file = _lock(folder, path)
    try:
        with _named_errors(path):
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if _PART.fullmatch(name):
                    os.unlink(folder / name)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)  # while it is locked: whoever comes now makes a new one
        os.close(file)


def _lock(folder: Path, path: Path) -> int:
    while True:
        with _named_errors(path):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(file)
            os.close(file)
            raise FolderInUse(
                f"{folder} is being written by {holder}; accepted: another --out, or wait until that ends"
            ) from error
        except OSError as error:
            warnings.warn(
                f"{printable(folder)} cannot be locked ({error.strerror}): take care that nothing else writes there",
                RuntimeWarning,
                stacklevel=4,
            )
        if _is_at(file, path):
            return file
        os.close(file)  # whoever held it has just removed it


def _is_at(file: int, path: Path) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file), there)


def _holder(file: int) -> str:
    try:
        text = os.pread(file, 300, 0).decode(errors="replace")
    except OSError:
        text = ""
    found = re.fullmatch(r"(\d{1,20}) (\S+)\n", text)
    if found is None:
        return "another process"
    number, host = found.groups()
    return f"process {number}" + ("" if host == socket.gethostname() else f" on {host}")
