# Everything there is to do with the source. `make` alone explains itself.

CARGO ?= cargo
# What `make run` watches: a folder of your own, so that no root is needed.
DIR ?= target/plugins
# How long `make fuzz` has for each target (0: without a limit), and the most inputs (-1: likewise).
FUZZ_SECONDS ?= 30
FUZZ_RUNS ?= -1
# With this version of Rust, the newest that CI has, a finding of `make lint` is an error, with
# others a warning.
LINT_RUST = 1.95

# Ends a target with status 1 if something is missing that it needs. No target installs anything:
# that is left to .ci/with-tools.
NEEDS = @CARGO="$(CARGO)" tests/tools/needs.sh check $@

.PHONY: help demo run test build lint generate doc fuzz bench bench-peers static dist check full

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@awk -F '## ' '/^## / { printf "       ONLY=%-14s %s\n", $$2, $$3 }' tests/tools/full.sh

demo: ## Show plugins register, stop and register again: needs no root, no network
	$(NEEDS)
	$(CARGO) build --locked --bin plugind
	tests/demo.sh

test: ## Run the tests; the last line counts those that this machine cannot run
	$(NEEDS)
	CARGO="$(CARGO)" tests/tools/test.sh

run: ## Run the daemon on DIR (default: target/plugins); Ctrl-C ends it
	$(NEEDS)
	$(CARGO) run --locked -- run --plugins-dir $(DIR) -v

build: ## Build the binary for release: target/release/plugind
	$(NEEDS)
	$(CARGO) build --release --locked

lint: ## Check format, lints and documentation
	$(NEEDS)
	CARGO="$(CARGO)" DECIDES="$(LINT_RUST)" tests/tools/lint.sh

doc: ## Document everything, also what is not part of the library's interface
	$(NEEDS)
	RUSTDOCFLAGS="--cfg plugind_internals" \
		$(CARGO) doc --locked --no-deps --document-private-items

generate: ## Generate src/proto/, src/dist/man/ and src/dist/completions/ from what they say
	$(NEEDS)
	TEST_GENERATE=1 $(CARGO) test --locked --test tidy generated

static: ## Build the static binary, target/static/plugind, and check it; TARGET=aarch64 or armv7 for those
	$(NEEDS)
	tests/static/build.sh
	tests/static/check.sh

dist: ## Build archives, packages and images for all processors in target/dist; TARGET=x86_64 only for one
	$(NEEDS)
	CARGO="$(CARGO)" src/dist/build.sh
	tests/dist/images.sh

fuzz: ## Fuzz each target for FUZZ_SECONDS (default: 30); TARGET=name only one
	$(NEEDS)
	$(CARGO) fuzz build --sanitizer none
	set -e; for target in $(or $(TARGET),$$($(CARGO) fuzz list)); do \
		mkdir -p fuzz/target/found/$$target; \
		$(CARGO) fuzz run --sanitizer none $$target \
			fuzz/target/found/$$target fuzz/corpus/$$target \
			-- -max_total_time=$(FUZZ_SECONDS) -runs=$(FUZZ_RUNS) -print_final_stats=1; \
	done

bench: ## Measure the static binary beside other clients; ONLY=framing: HTTP/2 in memory beside h2
	$(NEEDS)
	CARGO="$(CARGO)" tests/bench/bench.sh

bench-peers: bench

# The tests are last, so that the test runner's closing lines end it.
check: ## Check what CI does: the oldest Rust, demo, lint, static, gRPC stacks, test
	$(NEEDS)
	CARGO="$(CARGO)" tests/tools/msrv.sh check
	set -e; for target in demo lint static "full ONLY=interop" test; do $(MAKE) --no-print-directory $$target; done

full: ## Check everything that takes long, or one part:
	$(NEEDS)
	CARGO="$(CARGO)" TARGET="$(TARGET)" tests/tools/full.sh $(ONLY)
