#!/usr/bin/env bash
# Runs the tests of the binary with the static one for the processor that TARGET names, after
# tests/static/build.sh.
#
# For another processor than this machine's, an emulator runs the binary, and the demo is run, too.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh
export TEST_BINARY=$PWD/$binary

# The tests that are not run with an emulator, and the reason.
readonly -A not_emulated=(
	[a_socket_to_which_this_user_may_not_connect_is_a_problem]="it copies the binary to where only that can be executed"
	[the_service_may_make_the_system_calls_of_a_whole_life]="the emulator makes others"
	[crowds::]="an emulated daemon is slower than the clients that flood it"
	[a_client_that_never_reads_costs_only_its_own_connection]="the emulator's memory grows with the code that it has translated"
)

main() {
	if [ -z "$emulator" ]; then
		tests/tools/test.sh --test daemon
	elif command -v "$emulator" >/dev/null; then
		test_emulated
	else
		echo "static: tests of $cpu skipped, because $emulator is not installed" >&2
	fi
}

# Has the tests run the emulator in the place of the binary.
test_emulated() {
	local name arguments=()
	TEST_BINARY=$PWD/$build/$cpu/emulated/plugind
	mkdir -p "$(dirname "$TEST_BINARY")"
	printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$emulator" "$PWD/$binary" >"$TEST_BINARY"
	chmod +x "$TEST_BINARY"
	tests/demo.sh
	plugins_register_after_2038
	# Those that filter system calls would filter the emulator's.
	arguments=(--test daemon -- --skip older_kernels)
	for name in "${!not_emulated[@]}"; do
		echo "static: not run with $emulator: $name: ${not_emulated[$name]}"
		arguments+=(--skip "$name")
	done
	tests/tools/test.sh "${arguments[@]}"
}

# Plays the demo with a clock that is 20 years ahead, and expects its log to show that time.
plugins_register_after_2038() {
	local later
	later=$(date -u -d "now + 7300 days" +%Y)
	gcc -shared -fPIC -Os -o "$build/clock.so" tests/static/clock.c
	LD_PRELOAD=$PWD/$build/clock.so tests/demo.sh >"$build/$cpu/demo.log" ||
		{ cat "$build/$cpu/demo.log" >&2 && return 1; }
	grep -q "^  $later-.* registered DevicePlugin" "$build/$cpu/demo.log" ||
		{ echo "static: the log does not show the year $later" >&2 && return 1; }
	echo "static: plugins register in the year $later"
}

main
