"""docs/cpp.md: its programs are compiled and print what it says, its project is built, its tables are complete."""

import re
import shutil

import pytest

from consumers import NO_CUDA, ROOT, build, ccache, flags_of, library_folder, run

PAGE = (ROOT / "docs" / "cpp.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not here")
@pytest.mark.parametrize("kind", ["shared", "static"])
@pytest.mark.parametrize("compiler, standard, language", [("c++", "c++20", "cpp"), ("cc", "c11", "c")])
def test_programs_print_what_the_page_says(installations, tmp_path, kind, compiler, standard, language):
    installed = installations(kind)
    (program,) = blocks(language)
    source = tmp_path / f"main.{language}"
    source.write_text(program)
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run(compiler, f"-std={standard}", *warnings, source, "-o", tmp_path / "program", *flags_of(installed))
    (expected,) = blocks("text")
    assert run(tmp_path / "program", LD_LIBRARY_PATH=str(library_folder(installed))) == expected


def test_the_project_with_fetchcontent(tmp_path):
    """As it stands there; CMake is told that the sources are here."""
    (project,) = blocks("cmake")
    (tmp_path / "CMakeLists.txt").write_text(project)
    (tmp_path / "main.cpp").write_text(*blocks("cpp"))
    here = f"-DFETCHCONTENT_SOURCE_DIR_RTOPK={ROOT}"
    # With the warnings of the main build, so that ccache knows what that has compiled.
    warnings = f"-DCMAKE_PROJECT_INCLUDE={ROOT / 'cmake' / 'warnings.cmake'}"
    build(tmp_path, tmp_path / "build", here, "-DCMAKE_BUILD_TYPE=Release", NO_CUDA, warnings, *ccache())
    assert run(tmp_path / "build" / "first") == blocks("text")[0]


def test_options_exist():
    declared = "".join((ROOT / "cmake" / name).read_text() for name in ("options.cmake", "cuda.cmake", "cpack.cmake"))
    table = PAGE.split("\n## Options\n", 1)[1]
    names = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert len(names) >= 7
    for name in names:
        assert name in declared, name


def test_options_of_conan_are_those_of_the_recipe():
    recipe = (ROOT / "packaging" / "conan" / "conanfile.py").read_text()
    options = set(re.findall(r'^        "(\w+)": \[', recipe, re.MULTILINE))
    table = PAGE.split("conan create", 1)[1].split("## Options", 1)[0]
    assert options == set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
