#!/usr/bin/env bash
# Gives devices to containers, in a mount namespace of its own (needs root): `containers.sh PLUGIND
# PEERS`. PEERS has two Go programs: kubelet's sample-device-plugin, and `cdi`, which injects devices
# by the library of the CDI project. With podman, crun and a static busybox, a container sees them.
set -euo pipefail

readonly plugind=$1 peers=$2
readonly dir=$(mktemp -d /var/lib/plugind.XXXXXX) # Only root can change what is above it.
export PLUGIND_API_SOCKET=$dir/run/plugind.sock

main() {
	mount -t tmpfs -o mode=755 none /var/lib/kubelet
	mkdir -p /run/cdi && mount -t tmpfs -o mode=755 none /run/cdi
	"$plugind" run --config none --trust strict --device-plugins --plugins-dir "$dir/registry" \
		--run-dir "$dir/run" --cdi-dir /run/cdi 2>"$dir/log" &
	trap 'kill $(jobs -p) || true; wait; rm -rf "$dir"' EXIT
	until_exists /var/lib/kubelet/device-plugins/kubelet.sock
	"$peers/sample-device-plugin" 2>"$dir/sample.log" &
	until_exists /run/cdi/plugind-example.com-resource.json
	inject
	with
	run
}

# The library accepts the file, and makes of a device what its plugin has answered.
inject() {
	same 'names' "$("$peers/cdi" /run/cdi)" $'example.com/resource=Dev-1\nexample.com/resource=Dev-2'
	same 'one device' "$("$peers/cdi" /run/cdi example.com/resource=Dev-2)" "$(mounts Dev-2)"
}

# The two devices of a command are one device of CDI while it runs.
with() {
	local injected
	injected=$("$plugind" with example.com/resource=2 -- \
		sh -c '"$0" /run/cdi $PLUGIND_CDI_DEVICES' "$peers/cdi")
	same 'two devices' "$injected" "$(mounts Dev-1 Dev-2)"
	for _ in {1..100}; do
		ls /run/cdi/*lease* >/dev/null 2>&1 || return 0
		sleep 0.05
	done
	echo 'containers: the file of the command is still there' && return 1
}

# A container has the files of the device, and the nodes of a simulated one.
run() {
	local busybox found
	busybox=$(command -v busybox) && command -v podman crun >/dev/null ||
		{ echo 'containers: no container was run: busybox, podman or crun is not installed' && return; }
	umount -Rl /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup # crun knows no other.
	mkdir -p "$dir/image/bin"
	cp "$busybox" "$dir/image/bin/busybox"
	tar -C "$dir/image" -c . | podman "${storage[@]}" import -q - plugind-test >/dev/null
	"$plugind" simulate --dir "$dir/registry" --type DevicePlugin >/dev/null &
	until_exists /run/cdi/plugind-simulated.example-device.json
	found=$(podman "${storage[@]}" run --rm --network none --cgroups disabled \
		--ulimit nofile=1024:1024 --ulimit nproc=1000:1000 --security-opt seccomp=unconfined \
		--device example.com/resource=Dev-1 --device simulated.example/device=device-0 \
		plugind-test /bin/busybox sh -c 'ls /tmp /dev/device-0; echo $SIMULATED_DEVICES' |
		/bin/busybox grep -E 'Dev|device')
	same 'a container' "$found" $'/dev/device-0\nDev-1\ndevice-0'
	echo 'containers: podman has run a container with both devices'
}

readonly storage=(--storage-driver vfs --root "$dir/storage" --runroot "$dir/storage-run")

# Prints the OCI specification with the mounts of these devices and nothing else.
mounts() {
	local id separator='' options='"options": [
        "rbind",
        "rprivate",
        "rw"
      ]'
	printf '{\n  "ociVersion": "",\n  "mounts": ['
	for id; do
		printf '%s\n    {\n      "destination": "/tmp/%s",\n      "source": "/tmp/%s",\n      %s\n    }' \
			"$separator" "$id" "$id" "$options"
		separator=,
	done
	printf '\n  ]\n}\n'
}

same() {
	diff <(echo "$2") <(echo "$3") >&2 || { echo "containers: $1 differ" && cat "$dir/log" && return 1; }
}

until_exists() {
	for _ in {1..200}; do
		[ ! -e "$1" ] || return 0
		sleep 0.05
	done
	echo "containers: $1 does not appear" && cat "$dir"/*log && return 1
}

main
