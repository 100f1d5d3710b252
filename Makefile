# Thin fronts for CMake and Python. `make demo` and `make test` do all their own set-up.
SHELL := /bin/sh
PYTHON := .venv/bin/python
JOBS := $(shell nproc)
# Ninja where it is there; a build folder keeps the generator that it was made with.
export CMAKE_GENERATOR ?= $(if $(shell command -v ninja),Ninja,Unix Makefiles)

# Whether there is a GPU; whether build has been configured. Asked where they are used.
GPU = $(shell nvidia-smi >/dev/null 2>&1 && echo yes)
CONFIGURED = $(wildcard build/CMakeCache.txt)
# CMake with these arguments, saying what the build will have.
define configure
@cmake $(1) >build/configure.log || { cat build/configure.log; exit 1; }
@sed -n 's/^-- \(rtopk: .*\)/\1/p' build/configure.log
endef

SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.h' '*.hpp' '*.c' '*.cpp' '*.cu' '*.cuh')

.PHONY: help demo deb docs paper program test build wheel wheel-test bench clients gpu-check format lint setup clean

help:
	@echo 'make demo    select, check, time against torch.topk and draw build/demo.svg'
	@echo 'make paper   the RTop-K paper recomputed beside its published numbers: build/paper/index.html (QUICK=1: less of it)'
	@echo 'make test    every test that this machine can run, and make lint'
	@echo 'make build   the library, with CUDA where nvcc is found, the program build/bin/rtopk and the tests'
	@echo 'make deb     Debian packages of the library and the program: build/packages (ARGS=-DRTOPK_CUDA=OFF: without CUDA)'
	@echo 'make wheel   the Python package for this machine: dist/*.whl (CUDA=1: with CUDA, which takes long)'
	@echo 'make wheel-test  the same, installed in fresh environments and tested there'
	@echo 'make docs    the documentation as a site: build/docs/index.html'
	@echo 'make bench   the CPU speed table against torch.topk, with JSON in bench/results'
	@echo 'make clients  packages that call torch.topk, with accelerate() on and off: docs/clients.md (ARGS="--only timm")'
	@echo 'make gpu-check  build, test, sanitize and measure on a GPU; ARGS="--only bench --quick" for a part'
	@echo 'make format  clang-format and ruff over the tree'
	@echo 'make lint    the same as a check, clang-tidy over the library, and the rules of inclusion'
	@echo 'make clean   remove build and .venv'

demo: program
	@$(PYTHON) scripts/demo.py

paper: program
	@$(PYTHON) paper/page/reproduce.py $(if $(QUICK),--quick)

# What demo and paper run. Without a GPU nobody waits minutes for nvcc: a new build folder is then one without the CUDA
# backend, and one that is there stays as it is. `make build` and `make test` put the backend in.
program: setup
	$(call configure,$(if $(GPU),--preset release,$(if $(CONFIGURED),build,--preset release -DRTOPK_CUDA=OFF)))
	@cmake --build --preset release --parallel $(JOBS) --target rtopk_program

# In a folder of its own, because the prefix says where Debian's libraries lie; ccache has what build has compiled.
deb:
	@mkdir -p build
	@scripts/setup.sh system
	$(call configure,-S . -B build/deb -DCMAKE_INSTALL_PREFIX=/usr -DRTOPK_BUILD_TESTS=OFF $(ARGS))
	@cmake --build build/deb --parallel $(JOBS)
	@rm -rf build/packages
	@cd build/deb && cpack -B $(CURDIR)/build/packages >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@rm -r build/packages/_CPack_Packages && ls build/packages/*.deb

docs:
	@mkdir -p build
	@scripts/setup.sh docs
	@build/docs-venv/bin/sphinx-build -q -W --keep-going -d build/docs-cache/doctrees docs build/docs
	@echo 'build/docs/index.html'

test: setup
	@scripts/setup.sh browser
	@scripts/setup.sh docs
	@scripts/setup.sh lint
	@$(PYTHON) scripts/run_tests.py

build: setup
	$(call configure,--preset release)
	@cmake --build --preset release --parallel $(JOBS)

wheel: setup
	@$(PYTHON) scripts/wheel.py $(if $(CUDA),--cuda) $(ARGS)

wheel-test: wheel
	@$(PYTHON) scripts/wheel_test.py "$$(ls -t dist/*.whl | head -n 1)"

bench: build
	@$(PYTHON) bench/compare_torch.py --dtype f32 f16 bf16 --json bench/results/cpu.json

clients: setup
	@$(PYTHON) scripts/clients.py $(ARGS)

# Nothing is installed for this one: it is for bare machines with a GPU, whose Python has PyTorch.
gpu-check:
	@python3 scripts/gpu_check.py $(ARGS)

format: setup
	@.venv/bin/clang-format -i $(SOURCES)
	@.venv/bin/ruff format -q . && .venv/bin/ruff check -q --fix .

# clang-tidy reads the library alone: the headers that the program and the tests include cost it ten times as much.
lint: setup
	@.venv/bin/clang-format --dry-run --Werror $(SOURCES)
	@.venv/bin/ruff format -q --check . && .venv/bin/ruff check -q .
	@$(PYTHON) tests/packaging/include_rules.py
	@scripts/setup.sh lint
	@cmake --preset debug -B build/lint -DCMAKE_CXX_FLAGS='-DRTOPK_NO_AVX2 -DRTOPK_NO_AVX512' \
	  -DRTOPK_BUILD_TESTS=OFF -DRTOPK_BUILD_TOOLS=OFF >build/lint.log || { cat build/lint.log; exit 1; }
	@run-clang-tidy -quiet -j $(JOBS) -p build/lint '$(CURDIR)/src/.*\.cpp$$'

setup:
	@mkdir -p build
	@scripts/setup.sh system
	@scripts/setup.sh python

clean:
	rm -rf build .venv
