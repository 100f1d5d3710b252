"""What the tests of rtopk's packages share: the consumer, a project that uses rtopk as its users do."""

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONSUMER = HERE / "consumer"
# Without CUDA, whose kernels take minutes to compile; the main build has them.
NO_CUDA = "-DRTOPK_CUDA=OFF"


def run(*command, cwd=None, **environment):
    """What a command prints, which has to end well."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}"
    return result.stdout


def build(source, folder, *options, target=None, **environment):
    """Configures and builds a project, and returns what CMake said about its configuration."""
    said = run("cmake", "-S", source, "-B", folder, *options, **environment)
    only = ["--target", target] if target else []
    run("cmake", "--build", folder, "--parallel", os.cpu_count(), *only, **environment)
    return said


def ccache():
    """Options for a project that does not look for ccache itself, as rtopk does where it is the main project."""
    if shutil.which("ccache") is None:
        return []
    return [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]


def check_consumer(folder, **environment):
    """Runs the consumer's programs."""
    for program in ("from_cpp", "from_c"):
        assert run(folder / program, **environment).endswith(": right\n")


def library_folder(installed):
    return next(installed.rglob("librtopk.*")).parent


def flags_of(installed, *options):
    """What pkg-config says about an installed rtopk."""
    path = str(library_folder(installed) / "pkgconfig")
    return run("pkg-config", *options, "--cflags", "--libs", "rtopk", PKG_CONFIG_PATH=path).split()
