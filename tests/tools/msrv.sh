#!/usr/bin/env bash
# Builds the source with the oldest Rust that Cargo.toml allows: `msrv.sh check` compiles everything,
# `msrv.sh test` runs the tests, too. Unless that is the Rust in use, rustup's toolchain is used if it
# is installed, or else Debian's packages if apt has them: they are unpacked below target/, and
# nothing is installed.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly -a cargo=(${CARGO:-cargo}) # It may bring options of its own.
unset CARGO # Cargo would take it for its own path.
readonly oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
readonly root=$PWD/target/msrv/root
export CARGO_TARGET_DIR=$PWD/target/msrv/build

main() {
	local mode=$1
	if [[ $("${cargo[@]}" --version) == "cargo $oldest."* ]]; then
		echo "msrv: skipped, because the Rust in use is $oldest: make test runs all tests with it"
	elif command -v rustup >/dev/null && rustup toolchain list | grep -q "^$oldest[.-]"; then
		run_with rustup run "$oldest" cargo
	elif [ -x "$root/usr/bin/cargo" ] || unpack_packages; then
		export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu
		export PATH=$root/usr/bin:$PATH RUSTC=$root/usr/bin/rustc RUSTDOC=$root/usr/bin/rustdoc
		run_with "$root/usr/bin/cargo"
	else
		echo "msrv: skipped, because neither rustup nor apt has Rust $oldest here"
	fi
}

# Compiles everything, and runs the tests except those that measure the machine: the compiler makes
# no difference to these, and they take as long as all the others.
run_with() {
	"$@" --version
	"$@" check --locked --all-targets
	[ "$mode" = test ] || return 0
	"$@" test --locked --lib --bins --tests -- --skip soak::
	"$@" test --locked --doc
}

# Unpacks Debian's packages of that version, and the libraries they need that this machine lacks.
# Returns 1 if apt does not have them.
unpack_packages() {
	local version package packages=() download=$PWD/target/msrv/packages
	command -v apt-cache >/dev/null || return 1
	version=$(apt-cache madison rustc-web | awk -v prefix="$oldest." 'index($3, prefix) == 1 { print $3; exit }')
	[ -n "$version" ] || return 1
	for package in rustc-web cargo-web libstd-rust-web-dev "libstd-rust-web-$oldest"; do
		packages+=("$package=$version")
	done
	for package in $(libraries "$version"); do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || packages+=("$package")
	done
	rm -rf "$root" "$root.new" "$download"
	mkdir -p "$root.new" "$download"
	(cd "$download" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}") || return 1
	for package in "$download"/*.deb; do
		dpkg -x "$package" "$root.new" || return 1
	done
	mv "$root.new" "$root"
	rm -rf "$download"
}

# Every library that the packages depend on.
libraries() {
	local direct
	direct=$(apt-cache show "libstd-rust-web-$oldest=$1" "cargo-web=$1" | sed -n 's/^Depends: //p' |
		tr ',|' '\n\n' | sed 's/(.*//' | grep -o '\blib[^ ]*' | grep -v '^libstd-rust' | sort -u)
	apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
		--no-replaces --no-enhances $direct | grep '^lib' | sort -u
}

main "$@"
