# What a person types. Everything is built under target/; see README.md.
#
#   make build      plugin, wrappers, runtime library and decoder into target/release
#   make test       formatting and lint checks, all tests
#   make demo       instruments two programs, takes contexts and decodes them
#   make benchmark  what the encoding costs, on bzip2, Lua and sqlite3
#
# Each of them first installs what the machine lacks (scripts/setup, with apt-get).

CARGO ?= cargo
export CARGO_TARGET_DIR ?= $(CURDIR)/target
RELEASE := $(CARGO_TARGET_DIR)/release

.PHONY: all build setup test demo benchmark clean
all: build

setup:
	scripts/setup

build: setup
	$(CARGO) build --release --workspace
	scripts/build-runtime
	ln -sf pcce-clangxx $(RELEASE)/pcce-clang++

test: build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --workspace

demo: build
	testsuite/demo/run

benchmark: build
	$(CARGO) run --release --quiet -p pcce-testsuite --bin benchmark

clean:
	rm -rf $(CARGO_TARGET_DIR)
