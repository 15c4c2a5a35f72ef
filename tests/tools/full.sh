#!/usr/bin/env bash
# Checks what takes long, or needs more than a compiler: `make full` all of it, `make full ONLY=part`
# one part.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly -a cargo=(${CARGO:-cargo}) # It may bring options of its own.
readonly static=$PWD/target/static/plugind
readonly peers=$PWD/target/peers
readonly all=(msrv timed older-kernels soak sim crashes neighbours parity interop containers mistakes cost
	coverage h2spec fuzz static "static aarch64" "static armv7" reproducible dist)

main() {
	local part
	[ $# != 0 ] || set -- "${all[@]}"
	for part; do
		part=($part)
		grep -qE "^${part[0]}\(\)" "$0" || { echo "full: ${part[0]} is not a part of it" >&2 && exit 1; }
		echo "full: ${part[*]}"
		TARGET=${part[1]:-${TARGET:-}} "${part[0]}"
	done
}

## timed ## all tests with limits on their times, on a machine that has nothing else to do
timed() {
	TEST_TIMED=1 tests/tools/test.sh
}

## sim ## SEEDS random orders of events (default: 100000); SEED=n replays one
sim() {
	SEEDS=${SEEDS:-100000} test_with --profile sim --test manager simulation:: -- --nocapture
}

## crashes ## kill the daemon CRASHES times (default: 1000) while programs run; SEED=n replays an order
crashes() {
	test_with --test daemon crashes:: -- --ignored --nocapture
}

## soak ## 10,000 plugins that come and go, 100 that do nothing
soak() {
	test_with --test daemon soak:: -- --ignored --nocapture --test-threads 1
}

## neighbours ## attacks on the static binary, beside a plugin that behaves
neighbours() {
	tests/static/build.sh
	TEST_BINARY=$static TEST_NEIGHBOURS=1 test_with --test neighbours -- --nocapture --test-threads 1
}

## older-kernels ## the suites again without each feature that older kernels lack
older-kernels() {
	tests/tools/test.sh --test daemon --test library older_kernels:: -- --ignored
}

## parity ## the same scenarios with kubelet's own managers of plugins, compared (needs Go)
parity() {
	build_peers parity || return 0
	TEST_KUBELET=$peers/kubelet test_with --test parity -- --nocapture
	TEST_KUBELET=$peers/kubelet test_with --test daemon device_plugins:: -- --nocapture
}

## interop ## plugins and clients on every gRPC stack (uses Go, Python, Node, Java where found)
interop() {
	tests/tools/stacks.sh
	TEST_STACKS=$PWD/target/stacks tests/tools/test.sh --test interop -- --nocapture
}

## containers ## devices for containers, by the CDI project's library and by podman (needs root, Go)
containers() {
	build_peers containers || return 0
	go build -C tests/peers/cdi -trimpath -o "$peers/" .
	go build -C tests/peers/kubelet -trimpath -o "$peers/" \
		k8s.io/kubernetes/test/images/sample-device-plugin
	run_cargo build --locked --bin plugind
	mkdir -p /var/lib/kubelet
	unshare -m tests/tools/containers.sh target/debug/plugind "$peers"
}

## h2spec ## both ends of HTTP/2 held to its specification (needs Go)
h2spec() {
	tests/h2spec.sh
}

## mistakes ## known mistakes planted in a copy: do the simulation and the fuzz targets find all?
mistakes() {
	run_cargo run --locked --quiet --example mistakes
}

# What `make fuzz` does, for longer.
fuzz() {
	make --no-print-directory fuzz FUZZ_SECONDS=60
}

## mutants ## one change at a time, in SHARD of all places (default: 0/400): do the tests notice?
mutants() {
	run_cargo mutants --version >/dev/null 2>&1 ||
		{ echo "mutants: skipped: cargo-mutants is not installed" && return; }
	CARGO_PROFILE_DEV_DEBUG=0 run_cargo mutants --shard "${SHARD:-0/400}" --sharding round-robin \
		--exclude 'src/proto/*' --timeout 600 --output target \
		-- --locked --lib --bins --test daemon --test library --test manager
}

## coverage ## which lines of the protocol the tests run: more than 95 % of each folder
coverage() {
	run_cargo run --locked --quiet --example coverage
}

## cost ## functions, instructions and system calls of a registration (needs valgrind and strace)
cost() {
	tests/static/build.sh
	TEST_BINARY=$static run_cargo bench --locked --profile dev --bench bench -- cost
}

## msrv ## the tests with the oldest Rust that Cargo.toml allows
msrv() {
	tests/tools/msrv.sh test
}

## static ## the tests of the binary with the static one; TARGET=aarch64 or armv7 for those
static() {
	tests/static/build.sh
	tests/static/check-test.sh
	tests/static/check.sh
	tests/static/test.sh
}

## reproducible ## what is published for TARGET, built twice in two directories: is it the same?
reproducible() {
	tests/static/reproducible.sh
}

## dist ## install, upgrade and purge the package in a bare Debian (needs root and debootstrap)
dist() {
	src/dist/build.sh
	tests/dist/images.sh
	tests/dist/debian.sh
}

test_with() {
	run_cargo test --locked "$@"
}

# Cargo would take CARGO for its own path.
run_cargo() {
	env -u CARGO "${cargo[@]}" "$@"
}

# Builds kubelet's own managers of plugins. Returns 1 without Go.
build_peers() {
	command -v go >/dev/null || { echo "$1: skipped: Go is not installed" && return 1; }
	mkdir -p "$peers"
	go build -C tests/peers/kubelet -trimpath -o "$peers/" ./...
}

main "$@"
