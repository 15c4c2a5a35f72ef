#!/usr/bin/env bash
# Checks that check.sh rejects a file that is built in another way, for the reason that it should.
set -euo pipefail

cd "$(dirname "$0")/../.."
export TARGET=x86_64 # What this machine's compiler builds, whatever is checked besides.
[ "$(uname -m)" = x86_64 ] || exit 0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
file=$dir/file

main() {
	rejects "it has an interpreter" -pie
	rejects "it is not position-independent" -static -no-pie
	rejects "no part of its data is made read-only after relocation" -static-pie -Wl,-z,norelro
	rejects "its relocations do not all happen at the start" -static-pie -Wl,-z,lazy
	rejects "its stack is executable" -static-pie -Wl,-z,now,-z,execstack
	rejects "its headers are executable" -static-pie -Wl,-z,now,-z,noseparate-code
	rejects "a segment is both writable and executable" -static-pie -Wl,-z,now -DBOTH
	rejects "its entry point is not musl's" -static-pie -Wl,-z,now
}

# rejects REASON FLAG...: builds a program without a library with these flags, and has it checked.
rejects() {
	local said
	gcc -fPIE -ffreestanding -nostdlib "${@:2}" -Wl,--no-warn-rwx-segments -o "$file" -x c - <<-'C'
		static const char text[] = "text";
		static const char *volatile moved = text;
		#ifdef BOTH
		int both __attribute__((section(".both,\"awx\",@progbits#"), used)) = 1;
		#endif
		void _start(void) { while (moved) continue; }
	C
	! said=$(tests/static/check.sh "$file" 2>&1) && [ "$said" = "$file: $1" ] ||
		{ echo "check-test: with ${*:2}: expected \"$1\", but got \"$said\"" >&2 && exit 1; }
}

main
echo "files that are built in another way are rejected"
