#!/usr/bin/env bash
# Installs the package for Debian in a bare Debian 12, as an administrator would: installation,
# upgrade and downgrade while the daemon runs with a registered plugin, and purge. `make dist` comes
# first.
#
# The bare Debian is downloaded once, to target/debian, and is never written to: what the test writes
# is in memory, over it, in a mount namespace of its own. It has no service manager, so the daemon is
# started with the command of the unit.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly bare=$PWD/target/debian/root
readonly native=$(dpkg --print-architecture 2>/dev/null)

main() {
	if [ "${1:-}" = inside ]; then
		test_package
		return
	fi
	[ "$(id -u)" = 0 ] || skip "only root can change to another root directory"
	command -v debootstrap >/dev/null || skip "debootstrap is not installed"
	ls target/dist/plugind_*_"$native".deb >/dev/null 2>&1 || skip "target/dist has no package for $native"
	unshare --mount true 2>/dev/null || skip "there may be no mount namespaces here"
	exec unshare --mount --propagation private "$0" inside
}

skip() {
	echo "dist-test: skipped: $1"
	exit 0
}

test_package() {
	enter_debian
	build_upgrade
	daemon=
	trap 'stop_all' EXIT

	step "installation"
	dpkg_does --install "$first"
	in_debian plugind version | sed 's/^/  /'
	in_debian grep -q '^--- inotify .*: ISC' /usr/share/doc/plugind/copyright || fail "a licence is missing"
	directories_are_as_the_unit_makes_them
	installed=$(changed_files)

	step "registration"
	start_daemon
	start_plugin
	plugind wait --for=registered CSIPlugin/disk.example
	shows Registered

	step "upgrade while the daemon runs"
	dpkg_does --install "$second"
	version_ends_with +upgrade
	kill -0 "$daemon" || fail "the upgrade ended the daemon"
	shows Registered
	stop_daemon
	start_daemon
	plugind wait --for=registered CSIPlugin/disk.example
	nothing_was_deregistered

	step "downgrade while the daemon runs"
	dpkg_does --install "$first"
	! version_ends_with +upgrade || fail "the newer version is still installed"
	kill -0 "$daemon" || fail "the downgrade ended the daemon"
	shows Registered
	nothing_was_deregistered

	step "purge"
	stop_daemon
	stop_plugin
	dpkg_does --purge plugind
	nothing_is_left
	echo "dist-test: the package for $native can be installed, upgraded, downgraded and purged"
}

# Has a bare Debian below $root, and what is written there in memory below $written.
enter_debian() {
	local memory
	if [ ! -d "$bare" ]; then
		rm -rf "$bare.new"
		mkdir -p "$bare.new"
		debootstrap --variant=minbase bookworm "$bare.new" >"$bare.log" 2>&1 ||
			skip "Debian cannot be downloaded: $(tail -n 1 "$bare.log")"
		mv "$bare.new" "$bare"
	fi
	memory=$(dirname "$bare")/memory
	mkdir -p "$memory"
	mount -t tmpfs none "$memory"
	root=$memory/root written=$memory/written
	mkdir "$root" "$written" "$memory/work"
	mount -t overlay -o "lowerdir=$bare,upperdir=$written,workdir=$memory/work" none "$root" ||
		skip "file systems cannot be laid over each other here"
	mount -t proc proc "$root/proc"
	mount -t tmpfs none "$root/run"
	mount -t tmpfs none "$root/tmp"
}

# The package, and the same as a newer version.
build_upgrade() {
	first=/tmp/first.deb second=/tmp/second.deb
	cp target/dist/plugind_*_"$native".deb "$root$first"
	dpkg-deb --raw-extract "$root$first" "$root/tmp/tree"
	sed -i 's/^Version: .*/&+upgrade/' "$root/tmp/tree/DEBIAN/control"
	dpkg-deb --root-owner-group -Znone --build "$root/tmp/tree" "$root$second" >/dev/null
	rm -r "$root/tmp/tree"
}

in_debian() {
	chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"
}

dpkg_does() {
	in_debian dpkg --force-confold "$@" >"$root/tmp/dpkg.log" 2>&1 || fail "dpkg $*: $(cat "$root/tmp/dpkg.log")"
}

version_ends_with() {
	[[ $(in_debian dpkg-query --show --showformat='${Version}' plugind) == *"$1" ]]
}

plugind() {
	in_debian plugind "$@" || fail "plugind $* ended with status $?"
}

# The service manager makes these directories for the daemon, and kubelet's belongs to the node.
directories_are_as_the_unit_makes_them() {
	mkdir -p "$root/run/plugind" "$root/var/lib/plugind" "$root/var/lib/kubelet/plugins_registry"
}

# Starts the daemon with the command of the unit, and waits until it is ready.
start_daemon() {
	local -a command=(/usr/bin/plugind run)
	local unit=$root/usr/lib/systemd/system/plugind.service
	[ ! -e "$unit" ] || read -ra command < <(sed -n 's/^ExecStart=//p' "$unit")
	chroot "$root" "${command[@]}" 2>>"$root/tmp/daemon.log" &
	daemon=$!
	plugind wait --for=ready
}

stop_daemon() {
	kill "$daemon"
	wait "$daemon" || fail "the daemon ended with status $?: $(cat "$root/tmp/daemon.log")"
	daemon=
}

start_plugin() {
	chroot "$root" /usr/bin/plugind simulate --dir /var/lib/kubelet/plugins_registry \
		--type CSIPlugin --name disk.example >"$root/tmp/plugin.log" 2>&1 &
	plugin=$!
}

stop_plugin() {
	kill "$plugin"
	wait "$plugin" || fail "the plugin ended with status $?"
	plugin=
}

# The plugin is listed in this state.
shows() {
	plugind list | tee "$root/tmp/list" | sed 's/^/  /'
	grep -q "disk.example *$1" "$root/tmp/list" || fail "the plugin is not $1"
}

nothing_was_deregistered() {
	! grep deregister "$root/tmp/daemon.log" || fail "the plugin was deregistered"
}

# The files of Debian that were added, changed or removed, besides the records of dpkg.
changed_files() {
	(cd "$written" && find . ! -type d ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './var/cache/*' | sort)
	(cd "$written" && find . -name '*plugind*' ! -path './var/log/*' | sort)
}

nothing_is_left() {
	local left
	[ -n "$installed" ] || fail "the list of files is always empty"
	left=$(changed_files)
	[ -z "$left" ] || fail "this is left: $left"
	[ ! -e "$root/run/plugind" ] || fail "the run directory is left"
}

step() {
	echo "dist-test: $1"
}

stop_all() {
	local process
	for process in "$daemon" "${plugin:-}"; do
		[ -z "$process" ] || kill "$process" 2>/dev/null || true
	done
}

fail() {
	echo "dist-test: $1" >&2
	exit 1
}

main "$@"
