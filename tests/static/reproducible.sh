#!/usr/bin/env bash
# Builds everything that is published for the processor that TARGET names a second time, from a copy of
# the source in another directory and with a CARGO_HOME that is empty at first, and compares the files.
set -euo pipefail

cd "$(dirname "$0")/../.."
export TARGET=${TARGET:-x86_64}
readonly copy=$PWD/target/reproducible/a-directory/with-a-longer-name
readonly home=$PWD/target/reproducible/cargo
# A copy that is not a repository has neither.
SOURCE_REVISION=$(tests/static/revision.sh)
SOURCE_DATE_EPOCH=$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_REVISION SOURCE_DATE_EPOCH

main() {
	src/dist/build.sh
	rm -rf "$copy" "$home"
	mkdir -p "$copy" "$home"
	# Where packages come from is the only thing that it has.
	cp "${CARGO_HOME:-$HOME/.cargo}"/config* "$home" 2>/dev/null || true
	source_files | tar --create --null --files-from=- | tar --extract --directory="$copy"
	(cd "$copy" && CARGO_HOME=$home src/dist/build.sh)
	diff -r target/dist "$copy/target/dist" || fail
	rm -rf "$copy" "$home"
	echo "reproducible: two builds for $TARGET in different directories are the same"
}

# Prints the files that git tracks or would track, or all but what was built.
source_files() {
	if ! git -c safe.directory='*' ls-files -z --cached --others --exclude-standard 2>/dev/null; then
		find . -path ./target -prune -o -type f -print0
	fi
}

fail() {
	echo "reproducible: the two builds differ; the second one is in $copy" >&2
	exit 1
}

main
