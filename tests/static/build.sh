#!/usr/bin/env bash
# Builds the static, position-independent binary for the processor that TARGET names:
# target/static/plugind for x86_64, target/static/TARGET/plugind for the others.
#
# Debian's compiler builds the standard library from its sources, without backtraces.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh
unset CARGO # Cargo would take it for its own path.
# The variable from which cargo reads the flags for this target alone.
readonly rustflags=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_RUSTFLAGS
# The files that the linker needs. The path is relative to the source, so that the flags, from which
# cargo derives the names of functions and thereby their order, are the same in every directory.
readonly musl=$build/musl-$cpu
readonly -a arguments=(build --release --locked --target "$triple" --target-dir "$build")

main() {
	SOURCE_REVISION=$(tests/static/revision.sh)
	export SOURCE_REVISION
	mkdir -p "$(dirname "$binary")"
	link_musl
	with_std
	cp --remove-destination "$build/$triple/release/plugind" "$binary"
	echo "built $binary: $(stat -c %s "$binary") bytes, for $cpu, revision $SOURCE_REVISION"
}

# Puts the files that the linker needs from a musl toolchain into one directory.
link_musl() {
	local file
	rm -rf "$musl"
	mkdir -p "$musl"
	for file in crt1.o rcrt1.o crti.o crtn.o libc.a; do
		ln -s "$musl_dir/$file" "$musl/$file"
	done
	for file in crtbegin.o crtbeginS.o crtend.o crtendS.o; do
		ln -s "$("$gcc" -print-file-name="$file")" "$musl/$file"
	done
	"$gcc" -c -Os -o "$musl/unwind.o" tests/static/unwind.c
	ar rcsD "$musl/libunwind.a" "$musl/unwind.o"
	[ "$cpu" = x86_64 ] || make_position_independent
}

# The compiler links programs for x86_64 as position-independent, and those for the others at a fixed
# address. It gives the linker the same for them if the files for a fixed address are those for any.
make_position_independent() {
	ln -sf rcrt1.o "$musl/crt1.o"
	ln -sf crtbeginS.o "$musl/crtbegin.o"
	ln -sf crtendS.o "$musl/crtend.o"
}

# Builds with a standard library of its own: Debian has none for musl. Its sources fit only Debian's
# compiler.
with_std() {
	# Without it, times of 32-bit processors end in 2038.
	[ "$cpu" != armv7 ] || export RUST_LIBC_UNSTABLE_MUSL_V1_2_3=1
	export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
	/usr/bin/cargo fetch --locked --quiet # The directories of the packages have to exist for their flags.
	export "$rustflags=-Lnative=$musl -Cforce-unwind-tables=no $(flags_of_target) $(flags_of_paths)"
	/usr/bin/cargo "${arguments[@]}" -Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size
}

# Prints the flags of one processor.
flags_of_target() {
	local position_independent="-Clinker=$gcc -Crelocation-model=pie -Clink-arg=-Wl,-pie,--no-dynamic-linker,-z,text,-z,separate-code"
	case $cpu in
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

main
