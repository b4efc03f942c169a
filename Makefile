# SPDX-License-Identifier: MIT
# The front door. Each target installs what it needs (scripts/setup), builds
# (scripts/build, through CMake's presets) and runs one thing. V=1 shows all.
JOBS ?= 2
SEEDS ?= 100000
FIRST ?= 1
SOAK_SEEDS ?= 30000
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
export JOBS V PREFIX DESTDIR SOAK_SEEDS FUZZ_SECONDS

.DEFAULT_GOAL := help
.PHONY: help build demo check test soak sim bench lint format fuzz coverage install clean

help:
	@echo 'make TARGET:'
	@sed -n 's/^\([a-z]*\):.* ## /    \1\t/p' Makefile | expand -t 16
	@echo 'also: make bench-NAME, make sim SEEDS=1000000 FIRST=1, make fuzz FUZZ_SECONDS=600 FUZZ=fuzz_url, V=1'

build: ## build/outrider, with release flags
	@scripts/setup build
	@scripts/build release

demo: build ## run the main job on the embedded default: orders, a relay that is killed, a verdict
	@examples/orders/demo

check: ## the quick tests (unit, contract, corpora, a little simulation), in under a minute
	@scripts/setup test
	@scripts/build test
	@ctest --preset test -L quick -j$(JOBS)

test: ## every test, with AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/setup test
	@scripts/build test
	@scripts/run-tests $(JOBS)

soak: ## the fault suites at full counts (make test runs about a tenth of them)
	@scripts/setup test
	@scripts/build test
	@scripts/soak

sim: ## simulate: SEEDS=100000 runs from seed FIRST=1
	@scripts/setup test
	@scripts/build sim sim
	build-sim/tests/sim --seeds $(SEEDS) --first $(FIRST)

bench: ## all benchmarks; bench-NAME runs one (BENCH_EVENTS=, BENCH_JSON=)
	@scripts/setup build
	@scripts/build release
	@scripts/bench

bench-%:
	@scripts/setup build
	@scripts/build release
	@scripts/bench $*

lint: ## clang-format, clang-tidy, cppcheck and the rules of the house
	@scripts/setup lint
	@scripts/build test
	@scripts/lint

format: ## clang-format all C files in place
	@scripts/setup lint
	@scripts/files c h | xargs clang-format -i

fuzz: ## run each fuzz target for FUZZ_SECONDS=60
	@scripts/setup fuzz
	@scripts/build fuzz
	@scripts/fuzz $(FUZZ)

coverage: ## which lines the tests run: a summary, and build-coverage/index.html
	@scripts/setup coverage
	@scripts/build coverage
	@scripts/coverage

install: build ## install under PREFIX=/usr/local (and DESTDIR)
	@cmake --install build --prefix '$(PREFIX)'

clean: ## remove build and build-*
	rm -rf build build-*
