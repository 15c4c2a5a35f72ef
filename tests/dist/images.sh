#!/usr/bin/env bash
# Checks every image that `make dist` made.
set -euo pipefail

cd "$(dirname "$0")/../.."
for image in target/dist/plugind-*-image-*.tar; do
	(
		TARGET=${image##*-} TARGET=${TARGET%.tar}
		. tests/static/target.sh
		tests/dist/image.sh "$image" "$binary"
	)
done
