#!/usr/bin/env bash
# Makes the image for containers of a tree for the processor TARGET: `image.sh TREE`. Its only file is the
# binary. The archive has the layout of the Open Container Initiative, and the manifest.json that
# `docker load` reads; `podman load` takes either.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh
readonly tree=$1 name=plugind-$version-image-$cpu
readonly content=target/dist/$name
readonly blobs=$content/blobs/sha256

main() {
	local layer config manifest created
	mkdir -p "$blobs" "$content/files"
	install -m 755 "$tree/usr/bin/plugind" "$content/files/plugind"
	pack "$content/files" plugind >"$content/blob"
	rm -r "$content/files"
	layer=$(add)
	created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	printf '{"created":"%s",%s,"os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
		"$created" "$(platform)" \
		'{"Entrypoint":["/plugind"],"Cmd":["run"],"StopSignal":"SIGTERM"}' "$layer" >"$content/blob"
	config=$(add)
	printf '{"schemaVersion":2,"mediaType":"%s","config":%s,"layers":[%s]}' "$oci.manifest.v1+json" \
		"$(descriptor "$oci.config.v1+json" "$config")" \
		"$(descriptor "$oci.layer.v1.tar" "$layer")" >"$content/blob"
	manifest=$(add)
	printf '{"schemaVersion":2,"manifests":[%s]}' \
		"$(descriptor "$oci.manifest.v1+json" "$manifest" \
			",\"platform\":{$(platform),\"os\":\"linux\"},\"annotations\":{\"org.opencontainers.image.ref.name\":\"plugind:$version\"}")" \
		>"$content/index.json"
	printf '{"imageLayoutVersion":"1.0.0"}' >"$content/oci-layout"
	printf '[{"Config":"blobs/sha256/%s","RepoTags":["plugind:%s"],"Layers":["blobs/sha256/%s"]}]' \
		"$config" "$version" "$layer" >"$content/manifest.json"
	(cd "$content" && pack . blobs index.json manifest.json oci-layout) >"$content.tar"
	rm -rf "$content"
}

readonly oci=application/vnd.oci.image

# Prints an archive of these files of a directory.
pack() {
	tar --create --directory="$1" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner \
		--mode=u+rw,go+r-w --mtime="@$SOURCE_DATE_EPOCH" "${@:2}"
}

# Adds the new blob under its digest, and prints the digest.
add() {
	local digest
	digest=$(sha256sum "$content/blob" | cut -d ' ' -f 1)
	mv "$content/blob" "$blobs/$digest"
	echo "$digest"
}

# Prints the description of a blob: its type, its digest, and further fields.
descriptor() {
	printf '{"mediaType":"%s","digest":"sha256:%s","size":%s%s}' \
		"$1" "$2" "$(stat -c %s "$blobs/$2")" "${3:-}"
}

# Prints the processor in the words of container images.
platform() {
	case $cpu in
	armv7) printf '"architecture":"arm","variant":"v7"' ;;
	*) printf '"architecture":"%s"' "$debian" ;;
	esac
}

main
