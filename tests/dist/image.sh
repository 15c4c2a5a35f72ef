#!/usr/bin/env bash
# Checks an image that src/dist/image.sh made: `image.sh FILE BINARY`. Every blob has the digest and the
# size under which it is named, both lists of contents lead to the binary, and skopeo and podman, where
# they are installed, read it.
set -euo pipefail

readonly file=$(realpath "$1") binary=$(realpath "$2")
dir=$(mktemp -d "${TMPDIR:-/tmp}/image.XXXXXX")
trap 'rm -rf "$dir"' EXIT

main() {
	tar --extract --directory="$dir" --file="$file"
	cd "$dir"
	blobs_have_their_digests
	descriptions_fit index.json
	manifest=$(blob "$(digests index.json)")
	descriptions_fit "$manifest"
	read -r config layer < <(digests "$manifest" | xargs)
	layer_is_the_binary
	[ "$(paths manifest.json)" = "$config $layer" ] || fail "manifest.json has other blobs"
	grep -q "\"diff_ids\":\[\"sha256:$layer\"\]" "$(blob "$config")" || fail "the configuration has another layer"
	reads_with_skopeo
	loads_with_podman
	echo "image: $(basename "$file") is complete"
}

blobs_have_their_digests() {
	local blob
	for blob in blobs/sha256/*; do
		[ "$(sha256sum "$blob" | cut -d ' ' -f 1)" = "${blob##*/}" ] || fail "$blob has another digest"
	done
}

# Each description in a document is that of a blob.
descriptions_fit() {
	local digest size count=0
	while IFS=: read -r digest size; do
		[ "$(stat -c %s "$(blob "$digest")")" = "$size" ] || fail "$digest has another size than $1 says"
		count=$((count + 1))
	done < <(grep -oE '"digest":"sha256:[0-9a-f]{64}","size":[0-9]+' "$1" |
		sed 's/"digest":"sha256:\([0-9a-f]*\)","size":/\1:/')
	[ "$count" -gt 0 ] || fail "$1 describes no blob"
}

# Prints the digests that a document describes, in their order.
digests() {
	grep -oE '"digest":"sha256:[0-9a-f]{64}"' "$1" | grep -oE '[0-9a-f]{64}'
}

# Prints the digests of the blobs to which a document has paths.
paths() {
	grep -oE 'blobs/sha256/[0-9a-f]{64}' "$1" | grep -oE '[0-9a-f]{64}' | xargs
}

blob() {
	echo "blobs/sha256/$1"
}

layer_is_the_binary() {
	[ "$(tar --list --file="$(blob "$layer")")" = plugind ] || fail "the layer has other files"
	tar --extract --to-stdout --file="$(blob "$layer")" | cmp - "$binary" || fail "it has another binary"
	[[ $(tar --list --verbose --numeric-owner --file="$(blob "$layer")") == '-rwxr-xr-x 0/0 '* ]] ||
		fail "the binary has another mode or owner"
}

reads_with_skopeo() {
	local transport
	if ! command -v skopeo >/dev/null; then
		echo "image: not read with skopeo, because it is not installed"
		return
	fi
	for transport in oci-archive docker-archive; do
		skopeo copy --insecure-policy --quiet "$transport:$file" "dir:$dir/$transport" ||
			fail "skopeo cannot read it as $transport"
	done
}

loads_with_podman() {
	local podman loaded
	if ! command -v podman >/dev/null; then
		echo "image: not loaded with podman, because it is not installed"
		return
	fi
	podman="podman --storage-driver vfs --root $dir/images --runroot $dir/run"
	loaded=$($podman load --quiet --input "$file") || fail "podman cannot load it"
	[[ $loaded == *localhost/plugind:* ]] || fail "podman names it otherwise: $loaded"
	$podman rmi --force --all >/dev/null
}

fail() {
	echo "$file: $1" >&2
	exit 1
}

main
