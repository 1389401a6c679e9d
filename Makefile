# What a person types. Everything is built under target/; see README.md.
#
#   make build      plugin, wrappers, runtime library and decoder into target/release
#   make test       formatting and lint checks, all tests; LLVM 22 is built and tried
#   make test-all   all tests with both versions of LLVM, programs in all cases, and some fuzzing
#   make demo       instruments two programs, takes contexts and decodes them
#   make evaluate   what the encoding costs, on real programs; `make evaluate PROGRAMS="lua perl" VARIANTS=lto
#                   STEPS="time callgrind" PAIRS=15 TOOLS=FOLDER` evaluates less, or tools from elsewhere;
#                   DOCS=1 puts it into docs/evaluation.json, and writes docs/evaluation.md
#   make install    into PREFIX (/usr/local without it), below DESTDIR if that is given; make uninstall takes it away
#   make deb        Debian packages, target/deb/*.deb; make deb-check tries them in new Debian roots (minutes)
#   make packages   builds Debian packages with the wrapper in verify mode, and runs their own tests: the N quickest of them, all without
#                   it (PACKAGES="zlib bash" MODES="lto module" TOOLS=FOLDER, DOCS=1: into docs/packages.md, too); target/packages/report.md
#   make wheel      the decoder for Python, target/wheel/*.whl (maturin is installed under target/ if there is none)
#   make spark      decodes N tokens (10,000,000 without it) of eight builds on a local cluster of Spark, as pcce filter does
#   make guide      the user's guide as a web page, target/guide (mdBook is installed under target/ if there is none)
#   make fuzz       N inputs (1,000,000 without it) to each parser, under libFuzzer, with a limit of 1 GB
#   make heap-cost  what a heap profile costs, next to heaptrack and valgrind, and that its totals are valgrind's
#   make numbers-cost
#                   logs of every allocation of gawk, Lua and sqlite3, with numbers and with tokens, beside Lucce's own algorithm
#   make emulated-cost
#                   what contexts add to executed instructions, for AArch64 and x86-64 (PROGRAMS="lua sqlite3")
#   make torture    kills programs at random instructions, N of each, and compares their crash reports with gdb's backtraces
#                   (PROGRAMS="lua sqlite3", SEED=1, VARIANT=link for link mode), and core files of xz with threads
#   make same-code  code that is generated of what objects keep, beside the plain compiler's, for each module of real programs with
#                   SETS sets of flags (3 without it; PROGRAMS="lua jq")
#   make matrix     programs built with all flags and attributes that are known, compared with backtraces (N cases, SEED=1,
#                   ONLY="-O2 -fcf-protection": cases with these words, MODES="lto link")
#   make parts      runs of programs that differ, or do not: N collections of each kind (200 without it, SEED=1), whether they are
#                   told from each other
#   make slurm      collects traces on a Slurm with three nodes on this host, as root, one of which is killed (N rounds)
#   make soak       generated programs, N of each kind from seed SEED on (GENERATOR=csmith, cxx or outside: one only;
#                   TRACED=1: only a trace in verify mode, one mode each, calls or blocks; EMULATED=1: for AArch64, with
#                   TARGET=aarch64-linux-gnu)
#
# TARGET=aarch64-linux-gnu behind `make build` builds for that machine, too, into target/release/TARGET: the runtime for its
# programs, and the tools that run on it. `make install` with it installs that runtime, `make deb` makes packages for that
# machine, `make deb-check` tries them, and `make test` tries all test programs on that machine, in an emulator.
#
# LLVM=22 behind any of them is for that version instead of 19, in a target folder of its own, target/llvm22.
#
# Each of them first installs what it needs and the machine lacks (scripts/setup, with apt-get).

CARGO ?= cargo
CARGO_TARGET_DIR ?= $(CURDIR)/target
# The versions of LLVM that there is a build for. All tests run with the first one, which is the default.
LLVM_VERSIONS := $(shell cat scripts/llvm-versions)
FIRST_LLVM := $(firstword $(LLVM_VERSIONS))
OTHER_LLVMS := $(filter-out $(FIRST_LLVM),$(LLVM_VERSIONS))
LLVM ?= $(FIRST_LLVM)
ifneq ($(LLVM),$(FIRST_LLVM))
# What does not depend on LLVM is compiled once.
export CARGO_BUILD_BUILD_DIR := $(CARGO_TARGET_DIR)
override CARGO_TARGET_DIR := $(CARGO_TARGET_DIR)/llvm$(LLVM)
FEATURES := --no-default-features --features pcce-pass/llvm$(LLVM)
endif
export CARGO_TARGET_DIR
RELEASE := $(CARGO_TARGET_DIR)/release

export PREFIX DESTDIR LLVM

.PHONY: emulated-cost all build tools install uninstall deb deb-check wheel spark test test-all suite smoke demo evaluate torture matrix same-code soak packages guide fuzz heap-cost numbers-cost parts slurm clean
all: build

define runtime
scripts/build-runtime
ln -sf pcce-clangxx $(RELEASE)/pcce-clang++
echo $(LLVM) > $(RELEASE)/llvm-version
endef

build:
	scripts/setup build $(LLVM)
	$(CARGO) build --release -p pcce -p pcce-wrapper -p pcce-pass $(FEATURES)
	$(runtime)
	$(if $(TARGET),scripts/setup $(firstword $(subst -, ,$(TARGET))) $(LLVM))
	$(if $(TARGET),scripts/build-runtime $(TARGET))
	$(if $(TARGET),scripts/build-tools $(TARGET) $(FEATURES))

# The same, and the programs that test and measure. Cargo gives what both use the features of all.
tools:
	scripts/setup test $(LLVM)
	$(CARGO) build --release --workspace $(FEATURES)
	$(runtime)
	$(if $(TARGET),scripts/build-runtime $(TARGET))

install: build
	TARGET=$(TARGET) scripts/install

uninstall:
	scripts/install --remove

deb: build
	scripts/setup deb $(LLVM)
	scripts/package-deb
	$(if $(TARGET),scripts/package-deb $(TARGET))

deb-check: build
	scripts/setup deb-check $(LLVM)
	TARGET=$(TARGET) scripts/check-deb

ifdef TARGET
test: build
	$(CARGO) test -p pcce-testsuite $(FEATURES) --test suite -- $(firstword $(subst -, ,$(TARGET))):: --include-ignored
else
test: suite
	$(foreach llvm,$(OTHER_LLVMS),$(MAKE) smoke LLVM=$(llvm) &&) :

endif

test-all: export PCCE_ALL_CASES := 1
test-all: suite
	$(foreach llvm,$(OTHER_LLVMS),$(MAKE) suite LLVM=$(llvm) &&) :
	$(MAKE) fuzz N=5000

# Modules of tests that run with the first LLVM or with the others only: rustc has a newer LLVM than the first one, for
# which lldb and libomp are installed.
ifeq ($(LLVM),$(FIRST_LLVM))
SKIPPED := rust:: versions::
else
SKIPPED := guide:: python:: spec:: sanitizers:: points::debuggers:: link::kept_links:: link::split_dwarf:: \
    link::uninstrumented_pointers:: trace::core_files:: trace::shared_libraries:: trace::slurm::
endif

# Clippy is a compiler, too: it compiles the workspace's own crates for the tests, so that they are not read a second
# time for the lints. All targets are built, since some are compiled for no test.
LINTED := $(FEATURES) --config 'build.rustc-workspace-wrapper="clippy-driver"' --config 'build.rustflags=["-Dwarnings"]'

# Programs that crash leave no core file where they run, unless a test asks for one. rustup gets the standard library for
# AArch64 from its own servers, which not every machine reaches.
suite: build
	scripts/setup test $(LLVM)
	if scripts/setup aarch64 $(LLVM); then scripts/build-runtime aarch64-linux-gnu; \
	    else echo "make: the tests for AArch64 are left out, as this machine cannot build its runtime" >&2; fi
	$(CARGO) fmt --all --check
	$(CARGO) build --workspace --all-targets $(LINTED)
	ulimit -S -c 0; $(CARGO) test --workspace --tests $(LINTED) -- $(addprefix --skip ,$(SKIPPED)) \
	    $$([ -e $(RELEASE)/aarch64-linux-gnu/libpcce_rt.a ] || echo --skip aarch64::)
	$(CARGO) test -p pcce-encoding --doc

# What differs from one LLVM to the next, in little time. With the workspace's features, nothing is compiled anew for
# the tests; no other crate has tests of these names.
smoke: build
	scripts/setup test $(LLVM)
	$(CARGO) test --workspace $(LINTED) --test suite -- ir:: versions:: rust::
	$(CARGO) test --workspace $(LINTED) --test suite -- --exact \
	    $(addprefix programs::,callbacks coroutines exceptions modules recursion thin threads)

demo: build
	scripts/setup demo $(LLVM)
	testsuite/demo/run

evaluate: tools
	scripts/setup evaluate $(LLVM)
	$(RELEASE)/evaluate $(foreach option,PROGRAMS VARIANTS STEPS PAIRS TOOLS,\
	    $(if $($(option)),--$(shell echo $(option) | tr A-Z a-z) "$($(option))")) $(if $(DOCS),--docs)

heap-cost: tools
	scripts/setup evaluate $(LLVM)
	testsuite/profiles/measure $(PAIRS)

numbers-cost: tools
	scripts/setup evaluate $(LLVM)
	testsuite/numbers/measure $(PROGRAMS)

emulated-cost: build
	scripts/setup evaluate $(LLVM)
	scripts/setup aarch64 $(LLVM)
	scripts/build-runtime aarch64-linux-gnu
	testsuite/emulated/measure $(PROGRAMS)

torture: tools
	$(RELEASE)/torture $(if $(N),--count $(N)) $(if $(SEED),--seed $(SEED)) $(if $(PROGRAMS),--programs "$(PROGRAMS)") \
	    $(if $(VARIANT),--variant "$(VARIANT)")

matrix: tools
	$(RELEASE)/matrix $(if $(N),--count $(N)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only="$(ONLY)") $(if $(MODES),--modes "$(MODES)")

parts: tools
	scripts/setup test $(LLVM)
	PCCE_PARTS_RUNS=$(or $(N),200) PCCE_PARTS_SEED=$(or $(SEED),1) \
	    $(CARGO) test -p pcce-testsuite --test suite -- trace::divergent_runs:: --ignored --nocapture

slurm: tools
	scripts/setup test $(LLVM)
	PCCE_SLURM_ROUNDS=$(or $(N),5) $(CARGO) test -p pcce-testsuite --test suite -- slurm:: --ignored --nocapture

same-code: tools
	scripts/setup evaluate $(LLVM)
	$(RELEASE)/same_code $(if $(PROGRAMS),--programs "$(PROGRAMS)") $(if $(SETS),--sets $(SETS))

soak: tools
	$(RELEASE)/soak $(if $(N),--count $(N)) $(if $(SEED),--seed $(SEED)) $(if $(GENERATOR),--generator $(GENERATOR)) $(if $(TRACED),--traced) $(if $(EMULATED),--emulated)

packages: tools
	scripts/setup packages $(LLVM)
	$(RELEASE)/packages $(if $(N),--count $(N)) $(if $(PACKAGES),--packages "$(PACKAGES)") \
	    $(if $(MODES),--modes "$(MODES)") $(if $(TOOLS),--tools "$(TOOLS)") $(if $(DOCS),--docs)

wheel:
	scripts/setup wheel $(LLVM)
	scripts/build-wheel

spark: build
	scripts/setup spark $(LLVM)
	testsuite/python/spark $(N)

guide:
	command -v mdbook > /dev/null || $(CARGO) install --quiet --locked --no-default-features --features search \
	    --root $(CARGO_TARGET_DIR)/tools mdbook
	PATH="$$PATH:$(CARGO_TARGET_DIR)/tools/bin" mdbook build --dest-dir $(CARGO_TARGET_DIR)/guide docs/guide

fuzz:
	scripts/setup fuzz $(LLVM)
	scripts/fuzz $(N)

clean:
	rm -rf $(CARGO_TARGET_DIR)
