#!/usr/bin/env bash
# Puts everything that is installed for the processor TARGET below a directory, under the path that it
# has on a machine: `tree.sh DIRECTORY`.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh
readonly tree=$1 source=src/dist

main() {
	local page
	rm -rf "$tree"
	put 755 "$binary" usr/bin/plugind
	put_all 644 'man/*.5' usr/share/man/man5
	put_all 644 'man/*.7' usr/share/man/man7
	put_all 644 'man/*.8' usr/share/man/man8
	put_all 644 completions/plugind.bash usr/share/bash-completion/completions
	put_all 644 completions/_plugind usr/share/zsh/vendor-completions
	put_all 644 completions/plugind.fish usr/share/fish/vendor_completions.d
	put_all 644 'plugind*.service' usr/lib/systemd/system
	put_all 644 'plugind*.socket' usr/lib/systemd/system
	put_all 644 'plugind.service.d/*.conf' usr/share/doc/plugind/plugind.service.d
	put_all 644 'plugind.rules*' usr/share/doc/plugind
	put_all 644 'plugind.dashboard*' usr/share/doc/plugind
	put_all 644 '*.path' usr/share/doc/plugind
	put_all 644 plugind.conf etc/plugind
	put 644 README.md usr/share/doc/plugind/README.md
	for page in src/guide/asking.md $(grep -o 'src/guide/[a-z]*\.rs' README.md | sort -u); do
		put 644 "$page" "usr/share/doc/plugind/$page"
	done
	put 644 LICENSE usr/share/doc/plugind/copyright
	src/dist/licenses.sh >>"$tree/usr/share/doc/plugind/copyright"
	mv "$tree"/usr/share/bash-completion/completions/plugind{.bash,}
}

# Installs one file.
put() {
	install -D -m "$1" "$2" "$tree/$3"
}

# Installs the files of src/dist that match a pattern into a directory.
put_all() {
	local file
	for file in $source/$2; do
		put "$1" "$file" "$3/${file##*/}"
	done
}

main
