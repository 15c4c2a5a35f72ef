#!/usr/bin/env bash
# Checks both ends of HTTP/2 against RFC 9113 with h2spec: the example `serve` as a server, the
# example `request` as a client. Exits with status 0 only if every case passes, or if Go, which
# builds h2spec, is not installed.
set -euo pipefail

cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
version=v2.2.1+incompatible
# All of RFC 9113. Section 5.3 of RFC 7540, on priorities, requires that a stream does not depend on
# itself; RFC 9113 deprecates priorities.
sections=(generic hpack http2/3 http2/4 http2/5.1 http2/5.4 http2/5.5 http2/6 http2/7 http2/8)

main() {
	if ! command -v go >/dev/null; then
		echo "h2spec: skipped: Go is not installed"
		return
	fi
	GOBIN=$target/h2spec go install "github.com/summerwind/h2spec/cmd/...@$version"
	cargo build --locked --example serve --example request
	hold_server
	hold_client
}

hold_server() {
	local address
	coproc SERVE { exec "$target/debug/examples/serve" 127.0.0.1:0; }
	serve=$SERVE_PID # not local: the trap runs when this function has been left
	trap 'kill "$serve" 2>/dev/null || true' EXIT
	read -r address <&"${SERVE[0]}"
	"$target/h2spec/h2spec" --strict --host "${address%:*}" --port "${address##*:}" "${sections[@]}"
	kill "$serve"
	trap - EXIT
}

# Every case is a server to which the client sends a request; its exit code means nothing, because
# in most cases the server breaks a rule. The client stays for a while, to show its behavior after
# an answer.
hold_client() {
	local said=$target/h2spec/client.txt
	"$target/h2spec/h2specd" --strict --timeout 1 \
		--exec "$target/debug/examples/request 3 2" 2>&1 | tee "$said"
	grep -aq ' passed, 0 skipped, 0 failed' "$said"
}

main
