#!/usr/bin/env bash
# Builds the static binary for the processor that TARGET names: target/static/plugind for x86_64,
# target/static/TARGET/plugind for the others.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh

PLUGIND_REVISION=$(tests/static/revision.sh)
export PLUGIND_REVISION
STATIC_CARGO="${CARGO:-cargo}" tests/static/cargo.sh build --release --locked
mkdir -p "$(dirname "$binary")"
cp --remove-destination "$build/$triple/release/plugind" "$binary"
echo "built $binary: $(stat -c %s "$binary") bytes, for $cpu, revision $PLUGIND_REVISION"
