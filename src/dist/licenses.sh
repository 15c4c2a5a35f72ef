#!/usr/bin/env bash
# Prints the licences of what the static file contains beside plugind, for the processor TARGET: those
# of the crates, with their texts, and those of Rust's library and of musl.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh

main() {
	local package licence
	echo
	echo "plugind contains these packages, whose licences follow."
	${CARGO:-cargo} tree --locked --edges normal,no-proc-macro --target "$triple" --prefix none --format '{p}|{l}' |
		sort -u | grep -v '^plugind ' | while IFS='|' read -r package licence; do
		text_of "$package" "$licence"
	done
	printf '\n--- the standard library of Rust: MIT OR Apache-2.0, https://www.rust-lang.org/\n'
	printf '\n--- musl: MIT, with the words above; Copyright (c) 2005-2020 Rich Felker, et al.\n'
}

# Prints a licence, and the first text of it that the package has: that of MIT, if there is a choice.
text_of() {
	local name version file
	read -r name version _ <<<"$1"
	printf '\n--- %s %s: %s\n\n' "$name" "$version" "$2"
	for file in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-${version#v}"/{LICENSE-MIT,LICENSE,LICENSE.md,LICENSE.txt,COPYING}; do
		[ ! -f "$file" ] || { cat "$file" && return; }
	done
	echo "licenses: $name has no text of its licence" >&2
	return 1
}

main
