#!/usr/bin/env bash
# Makes the archive of a tree for the processor TARGET: `archive.sh TREE`. It has the same files without
# the directories of Debian: the program, and what belongs to it in folders of their own.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh
readonly tree=$1 name=plugind-$version-linux-$cpu
readonly content=target/dist/$name

main() {
	local from to
	while read -r from to; do
		[ ! -e "$tree/$from" ] || copy "$tree/$from" "$content/$to"
	done <<-'END'
		usr/bin .
		usr/share/man man
		usr/share/bash-completion/completions completions/bash
		usr/share/zsh/vendor-completions completions/zsh
		usr/share/fish/vendor_completions.d completions/fish
		usr/lib/systemd/system systemd
		usr/share/doc/plugind .
		etc/plugind etc
	END
	mv "$content/copyright" "$content/LICENSE"
	tar --create --directory=target/dist --format=ustar --sort=name --owner=0 --group=0 --numeric-owner \
		--mtime="@$SOURCE_DATE_EPOCH" "$name" | gzip -9n >"$content.tar.gz"
	rm -rf "$content"
}

# Copies the content of a directory.
copy() {
	mkdir -p "$2"
	cp -r "$1/." "$2"
}

main
