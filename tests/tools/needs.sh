#!/usr/bin/env bash
# Prints the packages that make's targets need and that this machine lacks. It installs nothing.
#
#   needs.sh list TARGET...    prints a line for each package, with "optional" behind it if the
#                              target does the rest of its work without it, "crate" if cargo
#                              installs it; ONLY names the part of `make full`
#   needs.sh check TARGET...   explains what is missing and not optional, and exits with status 1
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly -a cargo=(${CARGO:-cargo}) # It may bring options of its own.
# The oldest Rust that compiles the source, from Cargo.toml.
readonly oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

main() {
	local mode=$1 target found=()
	shift
	for target; do
		needs_of "$target"
	done
	case $mode in
	list) [ ${#found[@]} = 0 ] || printf '%s\n' "${found[@]}" | sort -u ;;
	check) check "$@" ;;
	esac
}

# Adds what one target needs. A target that is not listed here needs only a shell.
needs_of() {
	case $1 in
	build | run | demo | test | doc | generate) needs_cargo ;;
	bench) [ "${ONLY:-}" = framing ] && needs_cargo || needs_bench ;;
	bench-peers) needs_bench ;;
	static) needs_cargo && needs_static ;;
	lint) needs_cargo && needs_lints ;;
	fuzz) needs_cargo && needs_fuzzer ;;
	check) needs_of lint && needs_of static ;;
	dist) needs_cargo && needs_static_of_all ;;
	full) needs_of_part "${ONLY:-}" ;;
	esac
}

# Adds what `make full` needs for one part, or for all.
needs_of_part() {
	case $1 in
	neighbours | static) needs_of static ;;
	fuzz) needs_of fuzz ;;
	cost) needs_of static && needs_command valgrind valgrind && needs_command strace strace ;;
	reproducible) needs_of dist ;;
	dist) needs_of dist && needs_root ;;
	'') needs_of fuzz && needs_of dist && needs_root ;;
	*) needs_cargo ;;
	esac
}

# Cargo, a linker, and the C library that programs are linked with.
needs_cargo() {
	needs_command make make
	needs_command cc gcc
	[[ $(cc -print-file-name=Scrt1.o 2>/dev/null) == /* ]] || add libc6-dev
	is_new_enough "${cargo[0]}" && is_new_enough rustc || add "cargo$(family)" "rustc$(family)"
	# Cargo fetches crates by HTTPS, unless it has them all already.
	has_certificates || add "ca-certificates optional"
}

# The static binary for the processor that TARGET names: Debian's compiler with musl and the sources
# of its standard library, which other compilers do not accept. Another processor's musl is a package
# of its own architecture.
needs_static() {
	. tests/static/target.sh
	[ ! -e .git ] || needs_command git git
	[ -z "$emulator" ] || needs_command "$emulator" "qemu-user optional"
	needs_command "$gcc" "$gcc_package"
	[ -e "$musl_dir/rcrt1.o" ] || add "$(of_architecture musl-dev "$debian")"
	if is_new_enough /usr/bin/cargo && is_new_enough /usr/bin/rustc; then
		[ "$(version_of /usr/bin/rustc)" = "$(sources)" ] || add "$(fitting "$(sources_package)")"
	else
		add "cargo$(family)" "rustc$(family)" "$(sources_package)"
	fi
}

# The static binary, and what counts its instructions.
needs_bench() {
	needs_of static
	needs_command valgrind "valgrind optional"
}

# The static binaries for the processor that TARGET names, or for all.
needs_static_of_all() {
	local processor
	for processor in ${TARGET:-x86_64 aarch64 armv7}; do
		mapfile -t -O ${#found[@]} found < <(TARGET=$processor tests/tools/needs.sh list static)
	done
}

# A root directory of Debian, in which packages are installed and tested.
needs_root() {
	needs_command debootstrap "debootstrap optional"
}

# Prints the name of a package for an architecture, which apt may have to be told about.
of_architecture() {
	local native
	native=$(dpkg --print-architecture 2>/dev/null) || native=$2
	[ "$native" = "$2" ] && echo "$1" || echo "$1:$2"
}

# The formatter and the linter, which belong to the compiler: rustup has its own.
needs_lints() {
	command -v rustup >/dev/null && return
	"${cargo[@]}" fmt --version >/dev/null 2>&1 || add "$(fitting "rustfmt$(family)") optional"
	"${cargo[@]}" clippy --version >/dev/null 2>&1 || add "$(fitting "$(clippy_package)") optional"
}

# libFuzzer is written in C++; cargo-fuzz is a crate, not a package.
needs_fuzzer() {
	needs_command g++ g++
	"${cargo[@]}" fuzz --version >/dev/null 2>&1 || add "cargo-fuzz crate"
}

# Succeeds if there is a bundle of certificates where Debian, Red Hat, SUSE or Alpine keep it.
has_certificates() {
	local bundle
	for bundle in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/ssl/ca-bundle.pem \
		/etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
		[ ! -e "$bundle" ] || return 0
	done
	return 1
}

# Adds the package $2 if the command $1 does not exist.
needs_command() {
	command -v "$1" >/dev/null || add "$2"
}

add() {
	found+=("$@")
}

# Prints the Rust version that a compiler or cargo reports, or nothing.
version_of() {
	"$1" --version 2>/dev/null | cut -d ' ' -f 2
}

is_new_enough() {
	local version
	version=$(version_of "$1") || return
	[ -n "$version" ] && printf '%s\n' "$oldest" "$version" | sort -CV
}

# Prints the version of the standard library's sources that Debian installed, or nothing.
sources() {
	[ ! -d /usr/lib/rustlib/src/rust/library/std ] || realpath /usr/lib/rustlib/src/rust | sed 's/.*rustc-//'
}

# Prints the suffix of Debian's packages of the newest Rust. A stable release keeps its first Rust
# as `rustc`; a newer one, which browsers need, is `rustc-web`, and only one of them can be
# installed.
family() {
	if is_installed rustc-web; then
		echo -web
	elif provides rustc; then
		echo
	elif provides rustc-web || grep -qs '^VERSION_ID="12"' /etc/os-release; then
		echo -web
	fi
}

sources_package() {
	[ "$(family)" = -web ] && echo rust-web-src || echo rust-src
}

clippy_package() {
	[ "$(family)" = -web ] && echo rust-web-clippy || echo rust-clippy
}

is_installed() {
	dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

# Succeeds if apt has a version of this compiler that is new enough.
provides() {
	local version
	version=$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p')
	[ -n "$version" ] && [ "$version" != '(none)' ] && dpkg --compare-versions "$version" ge "$oldest"
}

# Prints the package $1, in the version of Debian's compiler if that is installed: apt would take
# the newest, and replace the compiler for it.
fitting() {
	local compiler version=
	compiler=$(version_of /usr/bin/rustc) || true
	[ -z "$compiler" ] || version=$(apt-cache madison "$1" 2>/dev/null |
		awk -v prefix="$compiler+" 'index($3, prefix) == 1 { print $3; exit }')
	echo "$1${version:+=$version}"
}

# Exits with status 1 if something is missing that is not optional, and prints how to install it
# all.
check() {
	local line required= packages=() crates=()
	for line in "${found[@]}"; do
		[[ $line == *' optional' ]] || required+="${line% crate} "
		[[ $line == *' crate' ]] && crates+=("${line% *}") || packages+=("${line% *}")
	done
	[ -n "$required" ] || return 0
	echo "make $*: missing on this machine: $(unique $required)" >&2
	if [ ${#packages[@]} = 0 ]; then
		:
	elif command -v apt-get >/dev/null; then
		printf '%s\n' "${packages[@]}" | sed -n 's/^.*:/  dpkg --add-architecture /p' | sort -u >&2
		echo "  apt-get update && apt-get install --no-install-recommends $(unique "${packages[@]}")" >&2
	else
		echo "  (packages as Debian names them; Rust has to be $oldest or newer)" >&2
	fi
	[ ${#crates[@]} = 0 ] || echo "  cargo install --locked ${crates[*]}" >&2
	[ ! -x .ci/with-tools ] || echo "or let it be installed: .ci/with-tools make $*" >&2
	return 1
}

unique() {
	printf '%s\n' "$@" | sort -u | xargs
}

main "$@"
