#!/usr/bin/env bash
# The life of three plugins: a CSI driver, a device plugin and a DRA driver appear and are
# registered, and the handlers log what the drivers report; a device becomes unhealthy and healthy
# again; its plugin ends and is deregistered, starts again and is registered again. Exits with
# status 0 only if all of this happened. `make demo` builds what it needs and runs it.
#
# The daemon and the plugins write to one pipe. The script prints every line and waits for the lines
# that it expects, for a bounded time; nothing here sleeps.
set -euo pipefail

cd "$(dirname "$0")/.."
plugind=${TEST_BINARY:-${CARGO_TARGET_DIR:-target}/debug/plugind}
patience=10 # seconds to wait for a line; each takes milliseconds

plugins=$(mktemp -d "${TMPDIR:-/tmp}/demo.XXX")
mkfifo "$plugins/lines"
exec 3<>"$plugins/lines"
rm "$plugins/lines"
seen=

trap clean_up EXIT

clean_up() {
	local left
	left=$(jobs -p)
	[ -z "$left" ] || kill $left 2>/dev/null || true
	rm -rf "$plugins"
}

# Begins a step: the lines that it expects must follow.
step() {
	printf '\n%s\n' "$1"
	seen=
}

# Prints lines until every pattern has matched one of this step, in any order.
await() {
	local pattern line
	for pattern; do
		until grep -Eq -- "$pattern" <<<"$seen"; do
			IFS= read -r -t "$patience" -u 3 line || fail "no line matched within $patience s: $pattern"
			printf '  %s\n' "$line"
			seen+=$line$'\n'
		done
	done
}

fail() {
	printf '\nThe demo failed: %s\n' "$1" >&2
	exit 1
}

# Starts a simulated plugin of type $1 and name $2; its process ID is $!.
start() {
	"$plugind" simulate --dir "$plugins" --type "$1" --name "$2" >&3 2>&1 3>&- &
}

# Ends a process with SIGTERM, and waits until it has exited successfully.
stop() {
	kill -TERM "$1"
	wait "$1" || fail "process $1 ended with status $?"
}

step "The daemon starts with an empty directory"
"$plugind" run --plugins-dir "$plugins" >&3 2>&1 3>&- &
daemon=$!
await "plugind .* starting pid=" "watching"

step "A CSI driver, a device plugin and a DRA driver start"
start CSIPlugin disk.example
disk=$!
start DevicePlugin example.com/gpu
gpu=$!
start DRAPlugin nic.example
nic=$!
for name in disk.example example.com/gpu nic.example; do
	await ": registered .*$name" "$name: received NotifyRegistrationStatus: registered"
done
await 'disk.example: received node information node_id="simulated-node" max_volumes=16 topology=zone=a' \
	"example.com/gpu: received a device list devices=2 healthy=2" \
	"nic.example: selected the DRA service to call service=v1.DRAPlugin" "nic.example: connected" \
	"nic.example: received device health devices=2 healthy=2"

step "A device becomes unhealthy, then healthy again"
kill -USR1 "$gpu"
await "devices=2 healthy=1 now_unhealthy=device-1"
kill -USR1 "$gpu"
await "devices=2 healthy=2 now_healthy=device-1"

step "The device plugin stops"
stop "$gpu"
await "example.com/gpu: received SIGTERM, stopped" ": deregistered .*example.com/gpu"

step "The device plugin starts again"
start DevicePlugin example.com/gpu
gpu=$!
await ": registered .*example.com/gpu" "example.com/gpu: received NotifyRegistrationStatus: registered" \
	"received a device list devices=2 healthy=2"

step "The daemon stops, then the plugins"
stop "$daemon"
for plugin in "$disk" "$gpu" "$nic"; do
	stop "$plugin"
done
await "disk.example: received SIGTERM, stopped" "example.com/gpu: received SIGTERM, stopped" "nic.example: received SIGTERM, stopped"
[ -z "$(ls -A "$plugins")" ] || fail "something is left in the directory"
printf '\nThe demo succeeded.\n'
