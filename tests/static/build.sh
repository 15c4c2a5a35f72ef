#!/usr/bin/env bash
# Builds the static binary target/static/plugind.
set -euo pipefail

cd "$(dirname "$0")/../.."
STATIC_CARGO="${CARGO:-cargo}" tests/static/cargo.sh build --release --locked
cp --remove-destination target/static/x86_64-unknown-linux-musl/release/plugind target/static/plugind
