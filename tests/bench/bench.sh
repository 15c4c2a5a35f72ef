#!/usr/bin/env bash
# Measures the static binary beside bare clients, and beside kubelet's own plugin manager if Go can
# build it. REST=n shortens the 60 s in which nothing happens; ONLY=framing measures HTTP/2 in memory
# beside h2, and nothing else.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly -a cargo=(${CARGO:-cargo}) # It may bring options of its own.
unset CARGO # Cargo would take it for its own path.
readonly kubelet=$PWD/target/peers/kubelet

if [ "${ONLY:-}" = framing ]; then
	exec "${cargo[@]}" bench --locked --bench framing
fi
tests/static/build.sh
if ! command -v go >/dev/null; then
	echo "bench: without kubelet, because Go is not installed"
elif go build -C tests/peers/kubelet -trimpath -o "$kubelet" .; then
	export TEST_BENCH_KUBELET=$kubelet
fi
TEST_BINARY=$PWD/target/static/plugind \
	TEST_BENCH_REST=${REST:-60} "${cargo[@]}" bench --locked --bench bench
