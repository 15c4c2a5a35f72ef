#!/usr/bin/env bash
# Builds a plugin on each gRPC stack whose tools this machine has, into target/stacks. Each stack is a
# program there that has its name.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly -a cargo=(${CARGO:-cargo}) # It may bring options of its own.
readonly source=$PWD/tests/peers/stacks
readonly to=$PWD/target/stacks

main() {
	rm -rf "$to"
	mkdir -p "$to"
	go_stacks || skipped "grpc-go and connect-go"
	python_stacks || skipped "grpcio and grpc.aio"
	node_stack || skipped grpc-js
	java_stack || skipped grpc-java
	tonic_stack || skipped tonic
}

go_stacks() {
	command -v go >/dev/null || return 1
	go build -C "$source/go" -trimpath -o "$to/go" . || return 1
	program grpc-go "$to/go" grpc-go
	program connect-go "$to/go" connect-go
}

# TEST_PYTHON names an interpreter that has grpcio; without it, one is made.
python_stacks() {
	local python=${TEST_PYTHON:-python3}
	command -v "$python" >/dev/null || return 1
	if ! "$python" -c 'import grpc.aio' 2>/dev/null; then
		"$python" -m venv "$to/python" && python=$to/python/bin/python &&
			"$python" -m pip install -q grpcio==1.85.3 || return 1
	fi
	program grpcio "$(command -v "$python")" "$source/plugin.py" grpcio
	program grpc.aio "$(command -v "$python")" "$source/plugin.py" grpc.aio
}

node_stack() {
	command -v npm >/dev/null || return 1
	cp -r "$source/node" "$to/node"
	npm install --prefix "$to/node" --no-audit --no-fund --silent || return 1
	program grpc-js "$(command -v node)" "$to/node/plugin.js"
}

java_stack() {
	command -v mvn >/dev/null && command -v javac >/dev/null || return 1
	mvn -q -B -f "$source/java/pom.xml" dependency:copy-dependencies \
		-DoutputDirectory="$to/java" || return 1
	javac -cp "$to/java/*" -d "$to/java" "$source/java/src/Plugin.java" || return 1
	program grpc-java "$(command -v java)" -cp "$to/java:$to/java/*" Plugin
}

tonic_stack() {
	env -u CARGO "${cargo[@]}" build --quiet --locked --manifest-path "$source/tonic/Cargo.toml" \
		--target-dir "$to/tonic-target" || return 1
	program tonic "$to/tonic-target/debug/stacks"
}

# Makes the program $1, which runs the command behind it.
program() {
	local name=$1
	shift
	printf '#!/bin/sh\nexec' >"$to/$name"
	printf " '%s'" "$@" >>"$to/$name"
	printf ' "$@"\n' >>"$to/$name"
	chmod +x "$to/$name"
}

skipped() {
	echo "stacks: skipped $1: its tools are not installed, or could not build it" >&2
}

main
