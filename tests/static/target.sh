# What the processors differ in for which there is a static binary. Sourced by other scripts, it sets
# variables for the one that TARGET names: x86_64 (default), aarch64 or armv7.

readonly cpu=${TARGET:-x86_64}
case $cpu in
x86_64)
	readonly triple=x86_64-unknown-linux-musl musl_dir=/usr/lib/x86_64-linux-musl
	readonly gcc=gcc gcc_package=gcc debian=amd64 machine=x86_64 qemu=qemu-x86_64
	;;
aarch64)
	readonly triple=aarch64-unknown-linux-musl musl_dir=/usr/lib/aarch64-linux-musl
	readonly gcc=aarch64-linux-gnu-gcc gcc_package=gcc-aarch64-linux-gnu
	readonly debian=arm64 machine=aarch64 qemu=qemu-aarch64
	;;
armv7)
	readonly triple=armv7-unknown-linux-musleabihf musl_dir=/usr/lib/arm-linux-musleabihf
	readonly gcc=arm-linux-gnueabihf-gcc gcc_package=gcc-arm-linux-gnueabihf
	readonly debian=armhf machine=armv7l qemu=qemu-arm
	;;
*)
	echo "TARGET=$cpu: expected x86_64, aarch64 or armv7" >&2
	exit 1
	;;
esac

# Where the build has its files, and the binary that comes of it.
readonly build=target/static
if [ "$cpu" = x86_64 ]; then
	readonly binary=$build/plugind
else
	readonly binary=$build/$cpu/plugind
fi

# The program that runs the binary, empty if this machine does.
if [ "$(uname -m)" = "$machine" ]; then
	readonly emulator=
else
	readonly emulator=$qemu
fi
