#!/usr/bin/env bash
# Makes the package for Debian of a tree for the processor TARGET: `deb.sh TREE`. The tree is complete,
# and dpkg-deb only packs it.
set -euo pipefail

cd "$(dirname "$0")/../.."
. tests/static/target.sh
readonly tree=$1 control=$1/DEBIAN
version=${version/-/\~} # A version that follows sorts behind this one.

main() {
	local file size unit=$tree/usr/lib/systemd/system/plugind.service
	if ! command -v dpkg-deb >/dev/null; then
		echo "dist: no package for Debian, because dpkg-deb is not installed" >&2
		return
	fi
	[ ! -e "$tree/usr/share/man" ] || find "$tree/usr/share/man" -type f -exec gzip -9n {} +
	# The service manager of Debian 12 does not know the type that reloads by itself.
	[ ! -e "$unit" ] || sed -i 's/^Type=notify-reload$/Type=notify\nExecReload=kill -HUP $MAINPID/' "$unit"
	size=$(du -k --apparent-size -s "$tree" | cut -f 1)
	mkdir "$control"
	sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$debian/" -e "s/@SIZE@/$size/" \
		src/dist/deb/control >"$control/control"
	for file in postinst prerm postrm; do
		install -m 755 "src/dist/deb/$file" "$control/$file"
	done
	# What an administrator may change is kept at an upgrade.
	[ ! -e "$tree/etc" ] || (cd "$tree" && find etc -type f -printf '/%p\n' | sort >DEBIAN/conffiles)
	find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$tree" \
		"target/dist/plugind_${version}_$debian.deb" >/dev/null
	rm -rf "$control"
}

main
