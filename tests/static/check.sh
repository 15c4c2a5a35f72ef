#!/usr/bin/env bash
# Checks the static binary, or the file that is named: it is small, hardened, does not depend on files
# of the machine, and has no sockets that a network could reach.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh
readonly file=${1:-$binary}
# The size (bytes) is acceptable on an edge node, even twice. The compiler that builds what is
# published decides, which is Debian 12's. An older one, such as Debian 13's 1.85, makes larger files.
readonly limit=1500000
readonly deciding=1.90

main() {
	segments=$(readelf -lW "$file")
	dynamic=$(readelf -dW "$file")
	needs_nothing
	is_hardened
	is_small
	has_no_network_socket
	echo "plugind is static and hardened: $size bytes for $cpu, limit $limit"
}

# With musl-gcc as the linker, the file silently gets an interpreter: it runs only on the machine
# that built it.
needs_nothing() {
	! grep -q INTERP <<<"$segments" || fail "it has an interpreter"
	! grep -qE 'NEEDED|RPATH|RUNPATH' <<<"$dynamic" || fail "it needs a shared library"
}

is_hardened() {
	readelf -hW "$file" | grep -q 'Type: *DYN' || fail "it is not position-independent"
	grep -q GNU_RELRO <<<"$segments" || fail "no part of its data is made read-only after relocation"
	grep -q BIND_NOW <<<"$dynamic" || fail "its relocations do not all happen at the start"
	grep -q 'GNU_STACK.* RW ' <<<"$segments" || fail "its stack is executable"
	! grep -qE '^ *LOAD .* (RWE|WE) ' <<<"$segments" || fail "a segment is both writable and executable"
	# The ELF header and the constants are in the segments at offset 0 and with .rodata.
	! grep -qE '^ *LOAD +0x0+ .* R E ' <<<"$segments" || fail "its headers are executable"
	! is_executable .rodata || fail "its constants are executable"
	! readelf -SW "$file" | grep -q ' \.rodata' || is_executable .text || fail "its code is not executable"
	starts_as_musl_does
}

# Succeeds if a section lies in an executable segment.
is_executable() {
	local number
	number=$(sed -n "s/^ *\([0-9]*\) .*\\$1 .*/\1/p" <<<"$(sed 's/$/ /' <<<"$segments")" | head -n 1)
	[ -n "$number" ] || return 1
	# Segments are numbered in the order in which they are listed.
	grep -E '^ +[A-Z_]+ +0x' <<<"$segments" | sed -n "$((10#$number + 1))p" | grep -q ' R E '
}

# musl's own entry point relocates the program and begins the C library. It is found by its first
# instructions, which clear the frame pointer and pass the stack pointer on.
starts_as_musl_does() {
	local entry
	[ "$cpu" = x86_64 ] || return 0
	entry=$(readelf -hW "$file" | sed -n 's/.*Entry point address: *//p')
	objdump -d --start-address="$entry" --stop-address="$((entry + 6))" "$file" |
		grep -q '48 31 ed' || fail "its entry point is not musl's"
}

is_small() {
	size=$(stat -c %s "$file")
	[ "$cpu" = x86_64 ] && [ "$size" -gt "$limit" ] || return 0
	local version
	version=$(/usr/bin/rustc --version | cut -d ' ' -f 2)
	printf '%s\n' "$deciding" "$version" | sort --version-sort --check=quiet ||
		{ echo "static: $size bytes by Rust $version, which is not held to the limit of $limit" && return; }
	fail "it has $size bytes, and the limit is $limit"
}

# Runs it briefly: none of its sockets may be in the kernel's tables of network sockets.
has_no_network_socket() {
	local inode
	if [ -n "$emulator" ] && ! command -v "$emulator" >/dev/null; then
		echo "static: not run, because $emulator is not installed" >&2
		return
	fi
	dir=$(mktemp -d)
	trap 'kill "$daemon" 2>/dev/null || true; rm -rf "$dir"' EXIT
	: >"$dir/log"
	$emulator "$file" run --plugins-dir "$dir/plugins" 2>"$dir/log" &
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
	echo "$file: $1" >&2
	exit 1
}

main
