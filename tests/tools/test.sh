#!/usr/bin/env bash
# Runs `cargo test` with these arguments. The last line counts the tests this machine could not run.
#
# A test that cannot run passes, and appends a line with its name and the reason to the file that
# TEST_SKIPPED names (tests/support/skip.rs). With CI=true that is a failure on a machine that
# allows user namespaces, because there only tests that lack a program, a device or descriptors may
# be skipped.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly -a cargo=(${CARGO:-cargo}) # It may bring options of its own.
unset CARGO # Cargo would take it for its own path.

main() {
	local status=0
	TEST_SKIPPED=$(mktemp "${TMPDIR:-/tmp}/skipped.XXXXXX")
	export TEST_SKIPPED
	trap 'rm -f "$TEST_SKIPPED"' EXIT
	"${cargo[@]}" test --locked --no-fail-fast "$@" || status=$?
	[ $status != 0 ] || fail_in_ci || status=1
	report
	exit $status
}

# In CI, returns 1 and prints the tests if some were skipped without need.
fail_in_ci() {
	local needless
	[ "${CI:-}" = true ] && unshare -U true 2>/dev/null || return 0
	needless=$(grep -vE ' (is not installed|is not in this copy of the source|cannot be opened|this process may have)$' "$TEST_SKIPPED") || return 0
	printf '\nCI fails, because these tests can run here but were skipped:\n%s\n' "$needless" >&2
	return 1
}

# Prints how many tests were skipped, and how many of them for each reason.
report() {
	local reasons
	reasons=$(cut -f 2 "$TEST_SKIPPED" | sort | uniq -c | sort -rn |
		awk '{ count = $1; sub(/^ *[0-9]+ /, ""); printf "%s%s: %d", separator, $0, count; separator = "; " }')
	echo "skipped: $(wc -l <"$TEST_SKIPPED")${reasons:+ ($reasons)}"
}

main "$@"
