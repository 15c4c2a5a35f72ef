#!/usr/bin/env bash
# Checks the static binary: it is small, does not depend on files of the machine, and has no sockets
# that a network could reach.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh

main() {
	size_is_below_limit
	needs_nothing
	has_no_network_socket
	echo "plugind is static: $size bytes for $cpu, limit $limit"
}

# The limit (bytes) is acceptable on an edge node, even twice. The oldest compiler makes 63 kB more of
# the same source. The standard library of rustup, with unwinding and backtraces, has no limit here.
size_is_below_limit() {
	size=$(stat -c %s "$binary")
	limit=1000000
	is_newer 1.86 || limit=1100000
	! is_rustups || limit=none
	[ "$limit" = none ] || [ "$size" -le "$limit" ] || fail "it has $size bytes, and the limit is $limit"
}

# Succeeds if the compiler that the binary names has at least this version.
is_newer() {
	local version
	version=$(readelf -p .comment "$binary" | sed -n 's/.*rustc version \([0-9.]*\).*/\1/p')
	printf '%s\n' "$1" "${version:-0}" | sort -CV
}

# With musl-gcc as the linker, the file silently gets an interpreter: it runs only on the machine
# that built it.
needs_nothing() {
	! readelf -lW "$binary" | grep -q INTERP || fail "it has an interpreter"
	! readelf -dW "$binary" | grep -qE 'NEEDED|RPATH|RUNPATH' || fail "it needs a shared library"
	readelf -hW "$binary" | grep -q 'Type: *DYN' || fail "it is not position-independent"
}

# Runs it briefly: none of its sockets may be in the kernel's tables of network sockets.
has_no_network_socket() {
	local inode
	dir=$(mktemp -d)
	trap 'kill "$daemon" 2>/dev/null || true; rm -rf "$dir"' EXIT
	: >"$dir/log"
	$emulator "$binary" run --plugins-dir "$dir/plugins" 2>"$dir/log" &
	daemon=$!
	until grep -q watching "$dir/log"; do
		kill -0 "$daemon" 2>/dev/null || fail "it does not run: $(cat "$dir/log")"
	done
	for inode in $(find "/proc/$daemon/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n'); do
		! grep -qs " $inode " /proc/net/{tcp,udp,raw,icmp}{,6} /proc/net/packet ||
			fail "socket $inode is one of a network"
	done
	kill "$daemon"
	wait "$daemon" || fail "it ended with status $?"
}

fail() {
	echo "$binary: $1" >&2
	exit 1
}

main
