#!/usr/bin/env bash
# Cargo for fully static, position-independent binaries: `build` for the one that ships, `test` for
# tests that are linked in the same way. The output is in target/static.
#
# If rustup's musl target is installed, cargo needs nothing else. Otherwise Debian's compiler builds
# the standard library from its sources, without backtraces: that does not need rustup, and the file
# is less than half the size.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly -a cargo=(${STATIC_CARGO:-cargo}) # It may bring options of its own.
unset CARGO # Cargo would take it for its own path.
readonly target=x86_64-unknown-linux-musl
readonly build=target/static
# Code and constants share pages, instead of each filling its last one: 8 kB less. The constants are
# executable then; nothing that can be written is.
readonly layout=-Clink-arg=-Wl,-z,noseparate-code
# Inlines a little less than `opt-level = "s"` does, with 50: 5 kB less, for 1.5 % more instructions of
# a registration.
readonly inlining=-Cllvm-args=--inline-threshold=32

main() {
	local command=$1
	shift
	mkdir -p "$build"
	if [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
		export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="$layout $inlining"
		"${cargo[@]}" "$command" --target "$target" --target-dir "$build" "$@"
	else
		link_musl
		with_std "$command" "$@"
	fi
}

# Puts the files that the linker needs from a musl toolchain into one directory. musl compares memory
# octet by octet, Rust's own function word by word: 5 % fewer instructions of a registration.
link_musl() {
	local file
	musl=$PWD/$build/musl
	mkdir -p "$musl"
	for file in crt1.o rcrt1.o crti.o crtn.o; do
		ln -sf "/usr/lib/x86_64-linux-musl/$file" "$musl/$file"
	done
	cp --remove-destination /usr/lib/x86_64-linux-musl/libc.a "$musl/libc.a"
	ar d "$musl/libc.a" memcmp.lo
	for file in crtbegin.o crtbeginS.o crtend.o crtendS.o; do
		ln -sf "$(gcc -print-file-name="$file")" "$musl/$file"
	done
	gcc -c -Os -o "$musl/unwind.o" tests/static/unwind.c
	ar rcs "$musl/libunwind.a" "$musl/unwind.o"
	gcc -c -Os -fPIE -fno-stack-protector -o "$musl/relocate.o" tests/static/relocate.c
}

# Builds with a standard library made for the purpose: small, and without unwind tables, because
# nothing unwinds. A test that fails therefore ends its process, and each test has its own. Debian's
# sources fit only Debian's compiler. Panic messages do not contain directories of the build
# machine. Derived Debug shows names without fields, which no line of the log needs: 8 kB less. The
# linker packs relocations, which takes 36 kB less of the file and of memory.
with_std() {
	local flags="$layout $inlining -Lnative=$musl -Cforce-unwind-tables=no -Zfmt-debug=shallow"
	local std=std,panic_abort dir
	flags+=" -Clink-arg=$musl/relocate.o -Clink-arg=-Wl,-e,start_packed,-z,pack-relative-relocs"
	for dir in /usr/lib/rustlib/src/rust/library/ "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
		flags+=" --remap-path-prefix=$dir="
	done
	if [ "$1" = test ]; then
		std+=,test
		set -- "$@" -Zpanic-abort-tests
		export CARGO_PROFILE_DEV_PANIC=abort
	fi
	RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS=$flags \
		/usr/bin/cargo "$@" --target "$target" --target-dir "$build" \
		-Zbuild-std="$std" -Zbuild-std-features=optimize_for_size,compiler-builtins-mem
}

main "$@"
