"""Files that are there whole or not at all, as those were that they replace; folders that are locked."""

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

fcntl = pytest.importorskip("fcntl", reason="this system has no fcntl")
pytest.importorskip("numpy", reason="numpy is not installed")

import rtopk  # noqa: E402
import study  # noqa: E402
from rtopk.gnn import _atomic, cli  # noqa: E402
from rtopk.gnn._atomic import FolderInUse, locked, write_together, write_whole  # noqa: E402
from rtopk.gnn.recipe import Recipe  # noqa: E402
from rtopk.gnn.training import Trainer, save_run, train  # noqa: E402
from rtopk.gnn.training.checkpoint import digest  # noqa: E402

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
SMALL = ["--hidden", "32", "--k", "8", "--layers", "2"]
BRIEF = {"hidden": 32, "k": 8, "layers": 2, "epochs": 4}

pytestmark = pytest.mark.usefixtures("one_thread")


# ---- Writing ----


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=["unnamed", "named"])
def temporary(request, monkeypatch):
    """Where the system can, a file has no name until it is whole; elsewhere it has another one."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.mark.usefixtures("temporary")
def test_a_file_keeps_its_mode_and_a_new_one_has_that_of_the_process(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", b"1")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == 0o640
    for bits in (0o600, 0o644, 0o666):
        (tmp_path / "new").chmod(bits)
        write_whole(tmp_path / "new", b"2")
        assert mode(tmp_path / "new") == bits and (tmp_path / "new").read_bytes() == b"2"
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path):
    path = tmp_path / "theirs"
    path.write_bytes(b"1")
    os.chown(path, 12345, 23456)
    path.chmod(0o660)
    write_whole(path, b"2")
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 23456, 0o660)


def test_an_owner_that_cannot_be_kept_is_said(tmp_path, monkeypatch):
    path = tmp_path / "theirs"
    path.write_bytes(b"1")

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    before = path.stat()
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda file: os.stat_result([*real(file)[:4], before.st_uid + 1, *real(file)[5:]]))
    with pytest.raises(OSError, match=f"theirs: it would no longer belong to user {before.st_uid}, group"):
        write_whole(path, b"2")
    monkeypatch.undo()
    assert path.read_bytes() == b"1" and os.listdir(tmp_path) == ["theirs"]


def test_what_is_read_only_stays(tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(b"1")
    path.chmod(0o444)
    with pytest.raises(OSError, match="cannot write .*result.json: it is read-only"):
        write_whole(path, b"2")
    assert path.read_bytes() == b"1" and os.listdir(tmp_path) == ["result.json"]


def test_what_is_no_plain_file_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(OSError, match=f"cannot write .*{name}: it is not a plain file"):
            write_whole(tmp_path / name, b"2")
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


@pytest.mark.usefixtures("temporary")
def test_links_are_followed(tmp_path):
    for name in ("there", "dangling"):
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / name)
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        if name == "there":
            (tmp_path / "elsewhere" / name).write_bytes(b"1")
        write_whole(tmp_path / "link", b"2")
        assert (tmp_path / "link").is_symlink() and (tmp_path / "elsewhere" / name).read_bytes() == b"2"
        (tmp_path / "link").unlink()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="cannot write .*loop: "):
        write_whole(tmp_path / "loop", b"2")


@pytest.mark.usefixtures("temporary")
def test_names_as_long_as_names_can_be(tmp_path):
    path = tmp_path / ("n" * 255)
    for content in (b"1", b"2"):
        write_whole(path, content)
        assert path.read_bytes() == content


@pytest.mark.usefixtures("temporary")
def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []

    def recorded(name):
        real = getattr(os, name)

        def function(*arguments, **options):
            is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            events.append(f"{name} folder" if is_folder else name)
            return real(*arguments, **options)

        return function

    for name in ("write", "fsync", "rename"):
        monkeypatch.setattr(os, name, recorded(name))
    write_together([(tmp_path / "a", b"1"), (tmp_path / "b", b"2")])
    assert events == ["write", "fsync"] * 2 + ["rename", "fsync folder"] * 2


@pytest.mark.usefixtures("temporary")
def test_of_several_files_none_changes_if_one_does_not_fit(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"before")
    real = os.write

    def full(file, content):
        if bytes(content) == b"second":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, content)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="cannot write .*b: No space left on device"):
        write_together([(tmp_path / "a", b"first"), (tmp_path / "b", b"second")])
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == {"a": b"before", "b": b"before"}


# ---- Locks ----


def test_a_folder_is_locked_for_one_at_a_time(tmp_path):
    with locked(tmp_path):
        with pytest.raises(FolderInUse, match=rf"{tmp_path} is being written by process {os.getpid()}; accepted: anot"):
            with locked(tmp_path):
                pass
    with locked(tmp_path / "new"):
        pass
    assert os.listdir(tmp_path) == ["new"]


def test_a_lock_that_was_just_removed_is_no_lock(tmp_path, monkeypatch):
    """Opened while its holder ends: it must not count, since the next one would make a new file."""
    real, held = os.open, []

    def opened(path, *arguments, **options):
        file = real(path, *arguments, **options)
        if not held and os.fspath(path).endswith(_atomic.LOCK):
            held.append(file)
            os.unlink(path)
        return file

    monkeypatch.setattr(os, "open", opened)
    with locked(tmp_path):
        monkeypatch.undo()
        with pytest.raises(FolderInUse), locked(tmp_path):
            pass


def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch):
    def missing(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", missing)
    with pytest.warns(RuntimeWarning, match="cannot be locked .No locks available.: make sure that nothing else"):
        with locked(tmp_path):
            pass


def child(program, *arguments):
    environment = os.environ | {"PYTHONPATH": str(Path(rtopk.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], env=environment, text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


HOLDER = """
import sys
from pathlib import Path
from rtopk.gnn._atomic import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_two_trainings_into_one_folder(tmp_path, capsys):
    arguments = ["train", "--graph", str(CORA), "--model", "sage", *SMALL, "--epochs", "2", "--out", str(tmp_path)]
    grid = ["--graph", str(CORA), "--model", "sage", *SMALL, "--out", str(tmp_path)]
    holder = child(HOLDER, tmp_path)
    try:
        assert holder.stdout.readline() == "locked\n"
        for main, line in ((cli.main, arguments), (study.main, grid)):
            assert main(line) == 1
            message = capsys.readouterr().err
            assert message.count("\n") == 1
            assert f"error: {tmp_path} is being written by process {holder.pid}; accepted: another --out" in message
        assert os.listdir(tmp_path) == [_atomic.LOCK]
        # A process that is killed holds nothing any more, though its file is still there.
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
        assert os.listdir(tmp_path) == [_atomic.LOCK]
        assert cli.main(arguments) == 0
    finally:
        holder.kill()
        holder.communicate()
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "checkpoint.pt", "result.json"]


def test_files_of_users_are_left_alone(cora, tmp_path):
    for name in (".probe", ".result.json.1", ".rtopk-note", ".rtopk-1234.part"):
        (tmp_path / name).write_text("mine")
    left = tmp_path / f".rtopk-{'0' * 32}.part"  # by a training that was killed
    left.write_bytes(b"half a checkpoint")
    assert train(Trainer(cora, Recipe(**BRIEF), "cpu"), tmp_path, show=False)
    assert not left.exists()
    assert {path.read_text() for path in tmp_path.glob(".*")} == {"mine"} and len(list(tmp_path.glob(".*"))) == 4


# ---- What a training leaves ----


def consistent(folder):
    """The result, if it names the files beside it."""
    result = json.loads((folder / "result.json").read_text())
    assert result["files"].keys() == {path.name for path in folder.glob("*.pt")}
    for name, facts in result["files"].items():
        assert digest((folder / name).read_bytes()) == facts["sha256"]
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert result["files"]["checkpoint.pt"]["epoch"] == saved["epoch"] == result["epochs_done"]
    return result


def test_the_result_names_the_files_that_it_belongs_to(cora, tmp_path):
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    assert train(trainer, tmp_path, show=False)
    result = consistent(tmp_path)
    assert result["finished"] and result["files"]["best.pt"]["epoch"] == trainer.best["epoch"]


@pytest.mark.parametrize("full", ["checkpoint.pt", "best.pt", "result.json"])
def test_on_a_full_disk_what_was_there_stays(cora, tmp_path, monkeypatch, full):
    recipe = Recipe(**BRIEF)
    first = Trainer(cora, recipe, "cpu")
    first.evaluate(first.step())
    save_run(first, tmp_path, whole=True, finished=False)
    second = Trainer(cora, recipe, "cpu")
    second.resume(tmp_path / "checkpoint.pt")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    real = _atomic._Part.__init__

    def refuse(self, folder, target, content):
        if target.name == full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, folder, target, content)

    monkeypatch.setattr(_atomic._Part, "__init__", refuse)
    with pytest.raises(OSError, match=f"cannot write .*{full}: No space left on device"):
        train(second, tmp_path, show=False)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert consistent(tmp_path)["epochs_done"] == 1


def test_a_disk_that_fills_up_during_training(cora, tmp_path, monkeypatch):
    """A save in between fails: the run ends there, and what it had saved before is still one whole."""
    monkeypatch.setattr("rtopk.gnn.training.loop._SAVE_SECONDS", 0.0)
    real, calls = _atomic._Part.__init__, []

    def refuse(self, folder, target, content):
        calls.append(target.name)
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, folder, target, content)

    monkeypatch.setattr(_atomic._Part, "__init__", refuse)
    with pytest.raises(OSError, match="cannot write .*best.pt: No space left on device"):
        train(Trainer(cora, Recipe(**BRIEF), "cpu"), tmp_path, show=False)
    assert len(calls) == 5 and consistent(tmp_path)["epochs_done"] == 1


def test_a_signal_while_a_save_in_between_is_written(cora, tmp_path, monkeypatch):
    monkeypatch.setattr("rtopk.gnn.training.loop._SAVE_SECONDS", 0.0)
    real = _atomic._Part.take_its_place

    def interrupted(self):
        real(self)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(_atomic._Part, "take_its_place", interrupted)
    assert not train(Trainer(cora, Recipe(**BRIEF), "cpu"), tmp_path, show=False)
    assert consistent(tmp_path)["epochs_done"] == 1


def test_what_cannot_be_replaced_is_known_before_training(cora, tmp_path, capsys):
    (tmp_path / "best.pt").write_bytes(b"mine")
    (tmp_path / "best.pt").chmod(0o444)
    arguments = ["train", "--graph", str(CORA), "--model", "sage", *SMALL, "--out", str(tmp_path)]
    assert cli.main(arguments) == 1
    printed = capsys.readouterr()
    assert re.search("error: .*cannot write .*best.pt: it is read-only", printed.err) and "epoch" not in printed.out
    assert os.listdir(tmp_path) == ["best.pt"] and (tmp_path / "best.pt").read_bytes() == b"mine"
