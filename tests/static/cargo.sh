#!/usr/bin/env bash
# Cargo for fully static, position-independent binaries: `build` for the one that ships, `test` for
# tests that are linked in the same way. TARGET names the processor (target.sh). The output is in
# target/static.
#
# If rustup's musl target for x86_64 is installed, cargo needs nothing else. Otherwise Debian's
# compiler builds the standard library from its sources, without backtraces: that does not need
# rustup, and the file is less than half the size. For other processors it is always built.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh
readonly -a cargo=(${STATIC_CARGO:-cargo}) # It may bring options of its own.
unset CARGO # Cargo would take it for its own path.
# The variable from which cargo reads the flags for this target alone.
readonly rustflags=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_RUSTFLAGS
# Code and constants share pages, instead of each filling its last one: 8 kB less. The constants are
# executable then; nothing that can be written is.
#
# Nor is a part of the data made read-only after its relocation, for which it would have to end with a
# page, of 64 kB on aarch64: musl does not do so in static programs.
readonly layout="-Clink-arg=-Wl,-z,noseparate-code -Crelro-level=off"
# Inlines less than `opt-level = "s"` does, with 50, and gives code that is repeated a function of its
# own where that saves 10 octets or more: 45 kB less, for 3.6 % more instructions of a registration.
readonly inlining="-Cllvm-args=--inline-threshold=20 -Cllvm-args=-enable-machine-outliner \
-Cllvm-args=-outliner-benefit-threshold=10"
# The files that the linker needs. The path is relative to the source, so that the flags, from which
# cargo derives the names of functions and thereby their order, are the same in every directory.
readonly musl=$build/musl-$cpu

main() {
	local command=$1
	shift
	mkdir -p "$build"
	if is_rustups; then
		export "$rustflags=$layout $inlining"
		"${cargo[@]}" "$command" --target "$triple" --target-dir "$build" "$@"
	else
		link_musl
		with_std "$command" "$@"
	fi
}

# Puts the files that the linker needs from a musl toolchain into one directory. musl compares memory
# octet by octet, Rust's own function word by word: 5 % fewer instructions of a registration.
link_musl() {
	local file
	mkdir -p "$musl"
	for file in crt1.o rcrt1.o crti.o crtn.o; do
		ln -sf "$musl_dir/$file" "$musl/$file"
	done
	cp --remove-destination "$musl_dir/libc.a" "$musl/libc.a"
	ar d "$musl/libc.a" memcmp.lo
	for file in crtbegin.o crtbeginS.o crtend.o crtendS.o; do
		ln -sf "$("$gcc" -print-file-name="$file")" "$musl/$file"
	done
	"$gcc" -c -Os -o "$musl/unwind.o" tests/static/unwind.c
	ar rcsD "$musl/libunwind.a" "$musl/unwind.o"
	if [ "$cpu" = x86_64 ]; then
		"$gcc" -c -Os -fPIE -fno-stack-protector -o "$musl/relocate.o" tests/static/relocate.c
	else
		make_position_independent
	fi
}

# The compiler links programs for x86_64 as position-independent, and those for the others at a fixed
# address. It gives the linker the same for them if the files for a fixed address are those for any.
make_position_independent() {
	ln -sf rcrt1.o "$musl/crt1.o"
	ln -sf crtbeginS.o "$musl/crtbegin.o"
	ln -sf crtendS.o "$musl/crtend.o"
}

# Builds with a standard library made for the purpose: small, and without unwind tables, because
# nothing unwinds. A test that fails therefore ends its process, and each test has its own. Debian's
# sources fit only Debian's compiler. Derived Debug shows names without fields, which no line of the
# log needs: 8 kB less.
with_std() {
	local flags="$layout $inlining -Lnative=$musl -Cforce-unwind-tables=no -Zfmt-debug=shallow"
	local std=std,panic_abort
	flags+=" $(flags_of_target) $(flags_of_paths)"
	if [ "$1" = test ]; then
		std+=,test
		set -- "$@" -Zpanic-abort-tests
		export CARGO_PROFILE_DEV_PANIC=abort
	fi
	# Without it, times of 32-bit processors end in 2038.
	[ "$cpu" != armv7 ] || export RUST_LIBC_UNSTABLE_MUSL_V1_2_3=1
	export "$rustflags=$flags" RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
	/usr/bin/cargo "$@" --target "$triple" --target-dir "$build" \
		-Zbuild-std="$std" -Zbuild-std-features=optimize_for_size,compiler-builtins-mem
}

# Prints the flags of one processor.
flags_of_target() {
	# The linker packs relocations, which takes 36 kB less of the file and of memory. Debian 12's does
	# so only for x86_64.
	local packed=-Clink-arg=-Wl,-e,start_packed,-z,pack-relative-relocs
	local position_independent="-Clinker=$gcc -Crelocation-model=pie -Clink-arg=-Wl,-pie,--no-dynamic-linker,-z,text"
	case $cpu in
	x86_64) echo "-Clink-arg=$musl/relocate.o $packed" ;;
	aarch64) echo "$position_independent" ;;
	armv7) echo "$position_independent -Ctarget-feature=+thumb-mode" ;;
	esac
}

# Prints the flags that keep directories of the build machine out of panic messages, so that every
# directory gives the same file.
flags_of_paths() {
	local dir
	for dir in /usr/lib/rustlib/src/rust/library/ "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/ "$PWD/"; do
		printf -- '--remap-path-prefix=%s= ' "$dir"
	done
}

main "$@"
