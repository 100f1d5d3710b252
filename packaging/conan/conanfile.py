"""rtopk for Conan 2, from the tree that this recipe lies in: conan create packaging/conan"""

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd, stdcpp_library
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

required_conan_version = ">=2.0"

# Of the tree, what the library is built from.
SOURCES = ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "packaging/debian/*")


class Rtopk(ConanFile):
    name = "rtopk"
    license = "MIT"
    description = "Exact, deterministic and fast top-k of every row of a matrix, on CPUs and NVIDIA GPUs"
    topics = ("top-k", "simd", "cuda")
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {
        "shared": [True, False],
        # The CUDA backend. nvcc is no package of Conan: it has to be installed.
        "cuda": [True, False],
        # Which Highway: Conan's package, the one that is installed on the system, or none (slow).
        "with_highway": ["conan", "system", "off"],
    }
    default_options = {"shared": False, "cuda": False, "with_highway": "conan"}

    def set_version(self):
        header = (Path(self.recipe_folder).parents[1] / "include" / "rtopk" / "rtopk.hpp").read_text()
        self.version = ".".join(re.findall(r"^#define RTOPK_VERSION_\w+ (\d+)$", header, re.MULTILINE))

    def export_sources(self):
        for pattern in SOURCES:
            copy(self, pattern, Path(self.recipe_folder).parents[1], self.export_sources_folder)

    def requirements(self):
        if self.options.with_highway == "conan":
            self.requires("highway/[>=1.0.3]")

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"os is {self.settings.os}; accepted: Linux")
        if self.options.cuda and not self.options.shared:
            raise ConanInvalidConfiguration(
                "cuda=True needs shared=True: a static library needs the CUDA runtime, which is no package of Conan"
            )

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # nothing is written beside the sources
        toolchain.cache_variables |= {
            "RTOPK_BUILD_TESTS": False,
            "RTOPK_BUILD_TOOLS": False,
            "RTOPK_CUDA": bool(self.options.cuda),
            "RTOPK_HIGHWAY": self.options.with_highway != "off",
            "RTOPK_DOWNLOAD": False,
        }
        toolchain.generate()
        dependencies = CMakeDeps(self)
        if self.options.with_highway == "conan":
            # By the names of Highway's own CMake package, which rtopk looks for.
            highway = self.dependencies["highway"]
            target = "highway::hwy" if highway.cpp_info.has_components else "highway"
            dependencies.set_property("highway", "cmake_file_name", "hwy")
            dependencies.set_property(target, "cmake_target_name", "hwy::hwy")
        dependencies.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        # Conan makes these for its users, from package_info.
        for folder in ("cmake", "pkgconfig"):
            rmdir(self, Path(self.package_folder) / "lib" / folder)

    def package_info(self):
        self.cpp_info.libs = ["rtopk"]
        if not self.options.shared:
            # The last is for programs in C.
            self.cpp_info.system_libs = ["pthread", "dl", "m", stdcpp_library(self)]
            if self.options.with_highway == "system":
                self.cpp_info.system_libs.append("hwy")
        if self.options.with_highway == "conan":
            self.cpp_info.requires = ["highway::highway"]
