#!/usr/bin/env bash
# Checks format, lints and documentation. With the version of Rust that DECIDES names, a finding is an
# error. With any other it is a warning, because each version of the linter has lints of its own.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly -a cargo=(${CARGO:-cargo}) # It may bring options of its own.
unset CARGO # Cargo would take it for its own path.

main() {
	local version level=warn
	version=$(rustc --version | cut -d ' ' -f 2)
	[ "${DECIDES:-}" != "${version%.*}" ] || level=deny
	check_format
	check_lints
	check_packages
	RUSTDOCFLAGS=$(flags) "${cargo[@]}" doc --locked --no-deps --quiet
	RUSTDOCFLAGS="--cfg plugind_internals $(flags)" \
		"${cargo[@]}" doc --locked --no-deps --document-private-items --quiet
}

check_format() {
	"${cargo[@]}" fmt --version >/dev/null 2>&1 || { skip format rustfmt && return; }
	"${cargo[@]}" fmt --check && "${cargo[@]}" fmt --check --manifest-path fuzz/Cargo.toml || [ $level = warn ]
}

check_lints() {
	"${cargo[@]}" clippy --version >/dev/null 2>&1 || { skip lints clippy && return; }
	"${cargo[@]}" clippy --locked --all-targets --test neighbours --test interop -- $(flags)
	"${cargo[@]}" clippy --locked --lib --no-default-features -- $(flags)
}

check_packages() {
	"${cargo[@]}" deny --version >/dev/null 2>&1 || { skip packages cargo-deny && return; }
	"${cargo[@]}" deny --locked check --config tests/tools/deny.toml licenses sources
}

# Prints the flag that makes a finding an error, or keeps it a warning.
flags() {
	[ $level = deny ] && echo -D warnings || echo --cap-lints warn
}

skip() {
	echo "lint: skipped the $1, because $2 is not installed" >&2
}

main
