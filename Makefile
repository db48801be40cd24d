# Every target does its own set-up. On a machine that is already set up, that needs no network and almost no time.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

JOBS := $(shell nproc)
# The suites with whole programs wait for time limits and for each other's programs, so they run side by side, as many as there
# are processors: three on two leave no processor time unused, and only make everything late. The longest come first.
SUITES := vm cluster vm-trapped web process
# One more than the processors: two sanitized tests at a time leave a quarter of two processors idle.
TEST_JOBS := $(shell echo $$(($$(nproc) + 1)))
# Unit tests use a fifth of the time that they take: they wait for time limits and other threads.
UNIT_JOBS := $(shell echo $$((2 * $$(nproc))))
PREFIX := /usr/local
PYTEST := /usr/bin/python3 -m pytest
SANITIZED := asan tsan
PRESETS := apart release $(SANITIZED)
# VM tests that `make test` also runs with trapped doorbells: those that ring doorbells most, sleep most, and disappear
# and come back. `make test-full` runs all.
TRAPPED_IN_TEST := $(addprefix tests/vm/test_,traffic.py lifecycle.py) -k "pingpong or lat or q_8_-b or reload or kill"

# Prints a heading with the time of day, so that a log tells how long each step took.
say = @printf '== %(%T)T %s\n' -1 "$(1)"

# Labels of the tests that count for `make coverage`.
COUNTED := ^(unit|fuzz|sim|conformance|device)$$

.PHONY: help run process-test install uninstall dist deb deb-test oci rpm demo unit check web-vendor test test-full vm-test cluster-test web-test ctest-unsanitized bench soak coverage format lint fuzz clean setup setup-full setup-build testbed programs $(PRESETS:%=ctest-%) $(SUITES:%=suite-%) summary

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r target text; do \
	  printf '  make %-13s %s\n' "$$target" "$$text"; done

dist:  ## the source tarball of the last commit, in build/dist/
	@tools/dist

deb: setup  ## Debian packages of the last commit for each release, or SUITE=NAME, in build/deb/; needs root
	@tools/deb $(if $(SUITE),--suite $(SUITE))

# The version that deb-test upgrades from: the last release before this commit, or the commit before while there is none.
OLDER = $(shell git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD~1 2>/dev/null || echo HEAD~1)

deb-test: setup  ## make deb, then install, upgrade under traffic (from OLDER=COMMIT) and remove the packages in a host of each release
	@$(MAKE) deb programs
	@tools/deb $(if $(SUITE),--suite $(SUITE)) --version 0.0.1 --commit $(OLDER) --out build/deb-older
	@RC_CHECKER=build/release/tests/cluster/rc_checker $(PYTEST) tests/packages $(if $(SUITE),-k $(SUITE))

oci: setup  ## make deb SUITE=trixie, then container images of it in build/oci/; needs root and buildah
	@$(MAKE) deb SUITE=trixie
	@tools/oci

rpm: setup  ## RPM package of the last commit, in build/rpm/, built by Debian's rpmbuild; needs root
	@tools/rpm

demo: setup  ## two VMs with ib_write_bw between them through pvrdmad; DOORBELLS=trapped: each doorbell a message; STAY=1: until Enter
	@$(MAKE) -j2 testbed programs
	@tools/demo $(if $(DOORBELLS),--doorbells $(DOORBELLS)) $(if $(STAY),--stay)

run: setup  ## a program with an RDMA device on this machine: CMD="ibv_devinfo", NODE=1 for a second device
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target pvrdmad pvrdma-run pvrdma-standin pvrdma-preload
	@build/release/src/pvrdma_run/pvrdma-run $(if $(NODE),--node $(NODE)) $(CMD)

install: setup-build  ## build the programs and install them: PREFIX (/usr/local), DESTDIR, STRIP=1
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target pvrdmad pvrdmactl pvrdma-run pvrdma-standin pvrdma-preload
	@$(if $(DESTDIR),DESTDIR=$(abspath $(DESTDIR))) cmake --install build/release --prefix $(PREFIX) $(if $(STRIP),--strip)

uninstall:  ## remove what make install has installed, with the same DESTDIR
	@$(if $(DESTDIR),DESTDIR=$(abspath $(DESTDIR))) cmake --build build/release --target uninstall

unit: setup  ## make check, then the unit tests: minutes the first time, then a minute or two; needs no root, VM or network
	@tools/check
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev --target unit_tests
	@ctest --preset dev -j$(UNIT_JOBS) -L '^unit$$' --output-log build/ctest-dev.log

check: setup  ## includes, formatting, prose, and cited files or messages that do not exist; takes seconds
	@tools/check

web-vendor:  ## the web page's third-party files once more, at the versions of third_party/web/manifest.json; needs node and npm
	@tools/web-vendor

test: setup  ## make check, then all tests of a normal run (CI): unit and device tests under sanitizers, VMs, clusters
	@tools/check
	@$(MAKE) -j2 testbed programs
	@$(MAKE) ctest-unsanitized
	@for preset in $(SANITIZED); do $(MAKE) ctest-$$preset; done
	@$(MAKE) -j$(JOBS) --keep-going --output-sync=target $(SUITES:%=suite-%)
	$(call say,summary)
	@$(MAKE) summary

test-full: setup-full  ## make test, then everything without sanitizers, other guests, a sanitized daemon in VMs, fuzzing
	@$(MAKE) test
	@$(MAKE) ctest-apart
	$(call say,Prometheus)
	@PVRDMAD=build/release/src/pvrdmad/pvrdmad $(PYTEST) tests/cli/test_promtool.py
	$(call say,simulation: many worlds)
	@PVRDMA_SIM_SEEDS=500 build/apart/tests/sim/sim_test
	@PVRDMA_SIM_SEEDS=60 PVRDMA_SIM_STEPS=10000 build/asan/tests/sim/sim_test
	$(call say,sanitizers: every check)
	@for preset in $(SANITIZED); do $(MAKE) ctest-$$preset WHOLE_TESTS=ON; done
	@tools/testbed/build --suite trixie --suite bookworm --suite bullseye --suite forky
	@tools/musl-rdma-core
	$(call say,process tests: many events under load; programs of musl)
	@$(PYTEST) tests/process -m full
	$(call say,VM tests of all guests)
	@$(PYTEST) tests/vm -m full
	$(call say,all VM tests with trapped doorbells)
	@PVRDMA_DOORBELLS=trapped $(PYTEST) tests/vm -m "not full"
	$(call say,long cluster tests; also with the daemon of the commit before)
	@other=$$(tools/other-daemon) && PVRDMA_OTHER_DAEMON=$$other $(PYTEST) tests/cluster -m full
	$(call say,long tests of the web page)
	@$(PYTEST) tests/web -m full
	$(call say,cluster tests of traffic with trapped doorbells)
	@PVRDMA_DOORBELLS=trapped $(PYTEST) tests/cluster/test_traffic.py -m "not full"
	$(call say,cluster tests with two shards)
	@PVRDMA_SHARDS=2 $(PYTEST) tests/cluster -m "not full"
	$(call say,hostile neighbours and VM and cluster tests of a daemon with AddressSanitizer)
	@cmake --build --preset asan --target programs neighbour_bench
	@NEIGHBOUR_BENCH=build/asan/bench/neighbour_bench $(PYTEST) tests/cli/test_neighbour_bench.py
	@PVRDMA_BUILD=build/asan $(PYTEST) tests/vm -m "not full"
	@PVRDMA_BUILD=build/asan $(PYTEST) tests/cluster -m "not full"
	$(call say,packages)
	@$(MAKE) oci rpm
	@$(MAKE) deb-test
	@$(MAKE) fuzz
	@$(MAKE) summary

process-test: setup programs  ## only the tests of ordinary processes with adapters; needs no root and no VM
	@$(MAKE) suite-process

vm-test: setup  ## only the VM tests
	@$(MAKE) -j2 testbed programs
	@$(MAKE) suite-vm

cluster-test: setup  ## only the cluster tests: hosts in network namespaces, etcd, VMs
	@$(MAKE) -j2 testbed programs
	@$(MAKE) suite-cluster

web-test: setup  ## only the tests of the web page: Chromium, and hosts in network namespaces; pictures in build/web-pictures/
	@$(MAKE) programs
	@$(MAKE) suite-web
	@tests/web/pictures.py

bench: setup  ## benchmarks of the release build: hostile neighbours, process mode, VM to VM, as root also host to host and the web page; JSON in build/bench/
	@cmake --preset release >/dev/null
	@cmake --build --preset release
	@tools/bench

soak: setup programs  ## load and kill adapters at random for TIME (10m), then programs of process mode, then VMs whose memory changes, each for as long; nothing may be left; report in build/soak/
	@nice -n 10 tests/soak/soak.py --time $(or $(TIME),10m) $(if $(SEED),--seed $(SEED)) $(if $(BUILD),--build $(BUILD))
	@$(if $(BUILD),PVRDMA_BUILD=$(BUILD)) nice -n 10 tests/soak/process_soak.py --time $(or $(TIME),10m) $(if $(SEED),--seed $(SEED))
	@nice -n 10 tests/soak/memory_soak.py --time $(or $(TIME),10m) $(if $(SEED),--seed $(SEED)) $(if $(BUILD),--build $(BUILD))

fuzz: setup-full  ## every fuzzer with its corpus, each for TIME (30): seconds, or with s, m, h
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz --target fuzzers
	@tools/fuzz --time $(or $(TIME),30)

coverage: setup-full  ## lines and branches that strangers can reach and no test does; report in build/coverage/report/
	@cmake --preset coverage >/dev/null
	@cmake --build --preset coverage
	@find build/coverage -name '*.gcda' -delete
	@ctest --preset coverage -j$(JOBS) -L '$(COUNTED)' --output-log build/ctest-coverage.log
	@tools/coverage

format: setup  ## format the C++ sources in place
	@tools/check --format

lint: setup-full  ## make check, then clang-tidy
	@tools/lint

clean:  ## remove build/, but not the testbed's cache (see tests/vm/README.md)
	@rm -rf build

setup:
	@tools/setup

setup-build:
	@tools/setup --build

setup-full:
	@tools/setup --full

testbed:
	@tools/testbed/build

programs:
	$(call say,preset release: pvrdmad and pvrdmactl and the programs of the tests)
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target programs

ctest-unsanitized:
	$(call say,preset release: tests that measure memory or run out of it)
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target unsanitized_tests
	@ctest --preset release -j$(TEST_JOBS) -L '^unsanitized$$' --output-log build/ctest-release.log

$(PRESETS:%=ctest-%): ctest-%:
	$(call say,preset $*: build)
	@cmake --preset $* -DPVRDMA_WHOLE_TESTS=$(or $(WHOLE_TESTS),OFF) >/dev/null
	@cmake --build --preset $*
	$(call say,preset $*: ctest)
	@ctest --preset $* -j$(TEST_JOBS) --output-log build/ctest-$*.log

# A suite's output appears when it has ended, if several run side by side; the + lets its heading appear at once.
$(filter-out suite-vm-trapped,$(SUITES:%=suite-%)): suite-%:
	+$(call say,$* tests begin)
	@$(PYTEST) tests/$* -m "not full"

suite-vm-trapped:
	+$(call say,VM tests with trapped doorbells begin)
	@PVRDMA_DOORBELLS=trapped $(PYTEST) $(TRAPPED_IN_TEST) -m "not full"

summary:
	@for log in build/ctest-*.log; do \
	  preset=$$(basename "$$log" .log); preset=$${preset#ctest-}; \
	  awk -v preset="$$preset" 'NR == FNR { if (/tests passed|tests failed/) tests = $$0; next } \
	    /^\[  PASSED  \]/ { passed += $$4 } /^\[  SKIPPED \] [0-9]+ tests?\./ { skipped += $$4 } \
	    END { printf "%s: %s; %d cases passed, %d skipped\n", preset, tests, passed, skipped }' \
	    "$$log" "build/$$preset/Testing/Temporary/LastTest.log"; done
