"""The kernel of the RTop-K paper's authors, which is not ours to ship. It is found in one of two ways:

- RTOPK_AUTHORS names a clone of github.com/xiexi51/RTopK: its kernel is compiled here with nvcc.
- The package rtopk-torch (github.com/EleutherAI/rtopk) is installed: an earlier version of the kernel, changed, with
  PyTorch bindings. It is imported as `rtopk`, as our own package is. So it is never imported: its compiled file is
  found by the distribution's name and loaded by its path.

Versions count max_iter in two ways. The first one, and the package, begin at the row's maximum: max_iter = n ends at
the n-th midpoint, as rtopk does. Today's kernel begins at the first midpoint and ends at the (n + 1)-th. `bound` counts
as rtopk does, whichever version it calls. tests/python/test_authors_kernel.py has both.
"""

import ctypes
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

from . import compiled
from .peer import Missing, Peer

VARIABLE = "RTOPK_AUTHORS"
DISTRIBUTION = "rtopk-torch"
# Without early stopping: more iterations than a bisection of floats can have, as in the authors' own program.
NO_LIMIT = 10_000
# One row of floats in the 48 KB of shared memory that a block has without asking for more.
MAX_COLS = 48 * 1024 // 4


class AuthorsKernel(Peer):
    name = "authors"
    install = (
        f"git clone https://github.com/xiexi51/RTopK and set {VARIABLE} to its folder, or pip install the wrapper "
    )
    install += "https://github.com/EleutherAI/rtopk in an environment without rtopk's own package"
    promises = "exact without max_iter, but for some ties in the package; with it, the elements that rtopk selects"
    dtypes = ("f32",)
    stops_early = True
    device = "cuda"

    def find(self, dtypes):
        folder = os.environ.get(VARIABLE)
        self._select, version = self._from_clone(Path(folder)) if folder else self._from_package()
        self._further = midpoints_further(self._select, self.device)
        return version + (", whose max_iter = n - 1 is timed beside rtopk's n" if self._further else "")

    def fits(self, rows, cols, k):
        # It reads whole warps of columns, and counts elements in 32 bits.
        return cols % 32 == 0 and cols <= MAX_COLS and rows * cols < 1 << 31

    def bound(self, matrix, k, max_iter=0):
        select, limit = self._select, max_iter - self._further if max_iter else NO_LIMIT
        return lambda: select(matrix, k, limit)

    @staticmethod
    def _from_clone(folder):
        if not (folder / "rtopk_kernel.cu").exists():
            raise Missing(f"{VARIABLE} names a folder without rtopk_kernel.cu")
        import torch

        # The text of their file is part of the name of what is kept, so a changed clone is compiled again.
        changed = f"-DRTOPK_AUTHORS_SOURCE={_digest(folder / 'rtopk_kernel.cu')}"
        [library] = compiled.libraries("authors_kernel.cu", [["-I", str(folder), changed]])
        library.rtopk_peer_authors.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 4 + [ctypes.c_void_p]

        def select(matrix, k, max_iter):
            values = torch.empty(len(matrix), k, dtype=matrix.dtype, device=matrix.device)
            indices = torch.empty(len(matrix), k, dtype=torch.int32, device=matrix.device)
            status = library.rtopk_peer_authors(
                matrix.data_ptr(),
                values.data_ptr(),
                indices.data_ptr(),
                *matrix.shape,
                k,
                max_iter,
                torch.cuda.current_stream().cuda_stream,
            )
            if status != 0:
                raise RuntimeError(f"CUDA error {status}")
            return values, indices

        return select, f"xiexi51/RTopK {_commit(folder)}"

    @staticmethod
    def _from_package():
        try:
            distribution = importlib.metadata.distribution(DISTRIBUTION)
        except importlib.metadata.PackageNotFoundError:
            raise Missing(f"{VARIABLE} is not set and {DISTRIBUTION} is not installed") from None
        if "rtopk" in sys.modules:
            raise Missing(f"{DISTRIBUTION} and rtopk's own package have the same names, and one is loaded already")
        files = [Path(distribution.locate_file(file)) for file in distribution.files or () if file.suffix == ".so"]
        files = [file for file in files if file.exists() and file.parent.name == "rtopk"]
        if not files:
            raise Missing(f"{DISTRIBUTION} is installed without its compiled file")
        import torch

        torch.ops.load_library(str(files[0]))
        operator = torch.ops.rtopk.rtopk

        def select(matrix, k, max_iter):
            return operator(matrix, k, max_iter, 0.0)

        return select, f"{DISTRIBUTION} {distribution.version}"


def midpoints_further(select, device):
    """How many midpoints behind rtopk's last one `select(matrix, k, max_iter)` ends: 0 or 1, by its version. Of the
    numbers 0 to 31, 16 are at or above the first midpoint, 15.5, and 8 at or above the second, 23.25."""
    import torch

    _, indices = select(torch.arange(32.0, device=device).view(1, -1), 8, 1)
    least = int(indices.min())
    if least not in (16, 24):
        raise RuntimeError(f"of the numbers 0 to 31, max_iter = 1 selects 8 from {least} on; known versions: 16 or 24")
    return int(least == 24)


def _digest(path):
    import hashlib

    return "0x" + hashlib.sha256(path.read_bytes()).hexdigest()[:8]


def _commit(folder):
    """Of the clone. A folder within another repository has none of its own."""

    def git(*arguments):
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() == Path(folder).resolve():
            return git("rev-parse", "--short", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        pass
    return "of an unknown commit"
