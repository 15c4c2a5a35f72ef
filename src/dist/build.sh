#!/usr/bin/env bash
# Builds what is published, in target/dist: for each processor an archive, a package for Debian and
# an image for containers, and the checksums of all. TARGET names one processor; without it, all
# three are built.
#
# One commit gives the same files on every machine with the same compiler: they are sorted, belong
# to root, and have the time of the commit.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly root=$PWD dist=target/dist
readonly -a processors=(${TARGET:-x86_64 aarch64 armv7})
version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || echo 0)}
export version SOURCE_DATE_EPOCH
umask 022

main() {
	local processor
	rm -rf "$dist"
	mkdir -p "$dist"
	for processor in "${processors[@]}"; do
		export TARGET=$processor
		tests/static/build.sh
		tests/static/check.sh
		src/dist/tree.sh "$dist/tree"
		src/dist/archive.sh "$dist/tree"
		src/dist/deb.sh "$dist/tree"
		src/dist/image.sh "$dist/tree"
		rm -rf "$dist/tree"
	done
	cd "$dist"
	sha256sum -- * >"$root/$dist.sums"
	mv "$root/$dist.sums" SHA256SUMS
	ls -l
}

main
