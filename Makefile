# Everything there is to do with the source. `make` alone explains itself.

CARGO ?= cargo
# What `make run` watches: a folder of your own, so that no root is needed.
DIR ?= target/plugins
# How many random orders of events `make sim` tries.
SEEDS ?= 100000
# For how many seconds `make bench` looks on while nothing happens.
REST ?= 60
# How often `make crashes` kills the daemon.
CRASHES ?= 1000
# How long `make fuzz` has for each target (0: without a limit), and the most inputs (-1: likewise).
FUZZ_SECONDS ?= 30
FUZZ_RUNS ?= -1
# Which part of all mutants `make mutants` tries, of how many.
SHARD ?= 0/400
# With this version of Rust, the newest that CI has, a finding of `make lint` is an error, with
# others a warning.
LINT_RUST = 1.95
# What `make full` does, unless ONLY names a part.
FULL = msrv-test timed older-kernels soak sim crashes neighbours parity mistakes "fuzz FUZZ_SECONDS=60"\
	static-test "static-test TARGET=aarch64" "static-test TARGET=armv7" reproducible dist-test check

# Ends a target with status 1 if something is missing that it needs. No target installs anything:
# that is left to .ci/with-tools.
NEEDS = @CARGO="$(CARGO)" tests/tools/needs.sh check $@
TEST = CARGO="$(CARGO)" tests/tools/test.sh

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the binary for release: target/release/plugind
	$(NEEDS)
	$(CARGO) build --release --locked

.PHONY: static
static: ## Build the static binary, target/static/plugind, and check it; TARGET=aarch64 or armv7 for those
	$(NEEDS)
	tests/static/build.sh
	tests/static/check-test.sh
	tests/static/check.sh

.PHONY: static-test
static-test: static ## Run the tests of the binary with the static one
	CARGO="$(CARGO)" tests/static/test.sh

.PHONY: reproducible
reproducible: ## Build what is published for TARGET (default: x86_64) twice, in two directories: is it the same?
	$(NEEDS)
	CARGO="$(CARGO)" tests/static/reproducible.sh

.PHONY: dist
dist: ## Build archives, packages and images for all processors in target/dist; TARGET=x86_64 only for one
	$(NEEDS)
	CARGO="$(CARGO)" src/dist/build.sh
	tests/dist/images.sh

.PHONY: dist-test
dist-test: dist ## Install, upgrade and purge the package in a bare Debian (needs root and debootstrap)
	tests/dist/debian.sh

.PHONY: run
run: ## Run the daemon on DIR (default: target/plugins); Ctrl-C ends it
	$(NEEDS)
	$(CARGO) run --locked -- run --plugins-dir $(DIR) -v

.PHONY: demo
demo: ## Show plugins register, stop and register again: needs no root, no network
	$(NEEDS)
	$(CARGO) build --locked --bin plugind
	tests/demo.sh

.PHONY: test
test: ## Run all tests; the last line counts those that this machine cannot run
	$(NEEDS)
	$(TEST)

.PHONY: timed
timed: ## Run all tests with limits on their times, on a machine that has nothing else to do
	$(NEEDS)
	PLUGIND_TIMED=1 $(TEST)

.PHONY: msrv
msrv: ## Compile everything with the oldest Rust that Cargo.toml allows
	$(NEEDS)
	CARGO="$(CARGO)" tests/tools/msrv.sh check

.PHONY: msrv-test
msrv-test: ## Run the tests with that Rust, but attacks and soak
	$(NEEDS)
	CARGO="$(CARGO)" tests/tools/msrv.sh test

.PHONY: sim
sim: ## Try SEEDS random orders of events (default: 100000); SEED=n replays one
	$(NEEDS)
	SEEDS=$(SEEDS) $(CARGO) test --locked --profile sim --test manager simulation:: -- --nocapture

.PHONY: soak
soak: ## Try plugins for a long time: 10,000 that come and go, 100 that do nothing
	$(NEEDS)
	PLUGIND_SOAK=1 $(CARGO) test --locked --test daemon soak:: -- --nocapture --test-threads 1

.PHONY: older-kernels
older-kernels: ## Run the suites again without each feature that older kernels lack
	$(NEEDS)
	PLUGIND_OLDER_KERNELS=1 $(TEST) --test daemon --test library -- older_kernels

.PHONY: crashes
crashes: ## Kill the daemon CRASHES times (default: 1000) while programs run; SEED=n replays an order
	$(NEEDS)
	PLUGIND_CRASHES=$(CRASHES) $(CARGO) test --locked --test daemon crashes:: -- --nocapture

.PHONY: neighbours
neighbours: ## Attack the static binary as a neighbour could, and print what comes of it
	$(NEEDS)
	tests/static/build.sh
	PLUGIND_BINARY="$(CURDIR)/target/static/plugind" PLUGIND_NEIGHBOURS=1 \
		$(CARGO) test --locked --test neighbours -- --nocapture --test-threads 1

.PHONY: cost
cost: ## Count what one more plugin costs, with few and with many (needs valgrind)
	$(NEEDS)
	CARGO_PROFILE_BENCH_STRIP=none CARGO_PROFILE_BENCH_LTO=off $(CARGO) bench --locked --bench cost

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZ_SECONDS (default: 30); TARGET=name only one
	$(NEEDS)
	$(CARGO) fuzz build --sanitizer none
	set -e; for target in $(or $(TARGET),$$($(CARGO) fuzz list)); do \
		mkdir -p fuzz/target/found/$$target; \
		$(CARGO) fuzz run --sanitizer none $$target \
			fuzz/target/found/$$target fuzz/corpus/$$target \
			-- -max_total_time=$(FUZZ_SECONDS) -runs=$(FUZZ_RUNS) -print_final_stats=1; \
	done

.PHONY: h2spec
h2spec: ## Hold both ends of HTTP/2 to its specification with h2spec (needs Go)
	tests/h2spec.sh

.PHONY: bench
bench: ## Measure the static binary beside a bare client; REST=n shortens the 60 s of nothing
	$(NEEDS)
	tests/static/build.sh
	$(CARGO) build --release --locked --example call-cost
	PLUGIND_BINARY="$(CURDIR)/target/static/plugind" \
		PLUGIND_BENCH_CALL_COST="$(CURDIR)/target/release/examples/call-cost" \
		PLUGIND_BENCH_REST=$(REST) $(CARGO) bench --locked --bench bench

.PHONY: bench-peers
bench-peers: ## The same, with kubelet's own plugin manager beside it (needs Go)
	@if ! command -v go >/dev/null; then \
		echo "bench-peers: skipped: Go is not installed"; \
	else \
		set -ex; \
		go build -C tests/peers/kubelet -trimpath -o "$(CURDIR)/target/peers/kubelet" .; \
		PLUGIND_BENCH_KUBELET="$(CURDIR)/target/peers/kubelet" $(MAKE) bench; \
	fi

.PHONY: parity
parity: ## Play scenarios against kubelet's own managers of plugins and this one, and compare (needs Go)
	$(NEEDS)
	@if ! command -v go >/dev/null; then \
		echo "parity: skipped: Go is not installed"; \
	else \
		set -ex; \
		mkdir -p target/peers; \
		go build -C tests/peers/kubelet -trimpath -o "$(CURDIR)/target/peers/" ./...; \
		PLUGIND_KUBELET="$(CURDIR)/target/peers/kubelet" \
			$(CARGO) test --locked --test parity -- --nocapture; \
		PLUGIND_KUBELET="$(CURDIR)/target/peers/kubelet" \
			$(CARGO) test --locked --test daemon device_plugins:: -- --nocapture; \
	fi

.PHONY: mistakes
mistakes: ## Plant known mistakes in a copy of the source: do the simulation and the fuzz targets find all?
	$(NEEDS)
	$(CARGO) run --locked --quiet --example mistakes

.PHONY: mutants
mutants: ## Break one thing at a time, in SHARD of all places (default: 0/400): do the tests notice?
	$(NEEDS)
	@if ! $(CARGO) mutants --version >/dev/null 2>&1; then \
		echo "mutants: skipped: cargo-mutants is not installed"; \
	else \
		set -ex; \
		CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) mutants --shard $(SHARD) --sharding round-robin \
			--exclude 'src/proto/*' --timeout 600 --output target \
			-- --locked --lib --bins --test daemon --test library --test manager --test protocols; \
	fi

# Counted by the compiler's own instrumentation, in lines of code that ship: tests/tools/coverage.rs.
.PHONY: coverage
coverage: ## Count which lines of the protocol the tests run: more than 95 % of each folder
	$(NEEDS)
	$(CARGO) run --locked --quiet --example coverage

.PHONY: lint
lint: ## Check format, lints and documentation
	$(NEEDS)
	CARGO="$(CARGO)" DECIDES="$(LINT_RUST)" tests/tools/lint.sh

.PHONY: doc
doc: ## Document everything, also what is not part of the library's interface
	$(NEEDS)
	RUSTDOCFLAGS="--cfg plugind_internals" \
		$(CARGO) doc --locked --no-deps --document-private-items

.PHONY: proto
proto: ## Generate src/proto/ from proto/ (no protoc needed)
	$(NEEDS)
	PLUGIND_WRITE_PROTO=1 $(CARGO) test --locked --test tidy proto::

.PHONY: manual
manual: ## Generate src/dist/man/ and src/dist/completions/ from the help texts and the log's catalogue
	$(NEEDS)
	PLUGIND_WRITE_MANUAL=1 $(CARGO) test --locked --test tidy generated_files

# One after the other, so that the test runner's closing lines end it.
.PHONY: check
check: ## Check everything, as CI does: demo, test, lint, static
	$(NEEDS)
	set -e; for target in demo test lint static; do $(MAKE) --no-print-directory $$target; done

.PHONY: full
full: ## Check everything that takes long, or ONLY=target: times, attacks, crashes, other processors, kernels and Rusts
	$(NEEDS)
	set -e; for target in $(if $(ONLY),"$(ONLY)",$(FULL)); do $(MAKE) --no-print-directory $$target; done
