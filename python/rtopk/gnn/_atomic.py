"""Atomic writes of files, and locks of folders."""

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
# The name of a file that is not complete yet. Only this module uses such names: one that is left over is from a process
# that was killed.
_PART = re.compile(r"\.rtopk-[0-9a-f]{32}\.part")


class FolderInUse(Refusal):
    """Another process is writing to the folder."""


def _cannot_write(path: Path, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot write {printable(path)}: {error.strerror or error}")


# ---- Writing ----


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Writes a file atomically: even after a power failure it has either its old or its new content."""
    write_together([(path, content)])


def write_together(files: Sequence[tuple[Path, bytes | memoryview]]) -> None:
    """Writes several files. All are flushed to the disk before the first takes its place, and they take their places in
    order. If one of them does not fit, all old files stay."""
    with contextlib.ExitStack() as stack:
        staged = []
        for path, content in files:
            with _named_errors(path):
                # A symbolic link stays, and the file that it points to is replaced.
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
    """An OSError if :func:`write_whole` could not replace what is there."""
    with _named_errors(path):
        _replaced(Path(os.path.realpath(path)))


def _replaced(target: Path) -> os.stat_result | None:
    """The status of the file that would be replaced, or None if there is none. An OSError if it may not be replaced."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EEXIST, "it is not a plain file")
    # Root may write to every file. But a file that nobody may write to is meant to be kept.
    if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, "it is read-only")
    return status


class _Part:
    """A complete file that has not taken its place: flushed to the disk, with the mode and owner of the one it
    replaces."""

    def __init__(self, folder: int, target: Path, content: bytes | memoryview) -> None:
        self._folder, self._target = folder, target
        self._name: str | None = None  # None: the file has no name, and vanishes when it is closed
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
                # Not every file system has files without a name.
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
                    raise
        name = _part_name()
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=self._folder)
        self._name = name
        return file

    def take_its_place(self) -> None:
        if self._name is None:
            # Only a file with a name can replace another.
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
    os.fchmod(file, stat.S_IMODE(replaced.st_mode))  # last: fchown clears some bits


def _flush_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot flush folders
            raise


# ---- Locks ----


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder against other processes and threads that lock it, and makes it if it is missing. The lock ends
    with the process, however that ends."""
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
            os.unlink(path)  # while it is locked: a process that comes now makes a new file
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
                f"{printable(folder)} cannot be locked ({error.strerror}): make sure that nothing else writes there",
                RuntimeWarning,
                stacklevel=4,
            )
        if _is_at(file, path):
            return file
        os.close(file)  # the process that held the lock has just removed the file


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
