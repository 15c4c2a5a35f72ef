#!/usr/bin/env bash
# Prints the commit from which a binary is built: the one that the builder names in SOURCE_REVISION,
# that of the repository, with "-dirty" behind it if files were changed, or that of a package of cargo.
set -euo pipefail

cd "$(dirname "$0")/../.."
if [ -n "${SOURCE_REVISION:-}" ]; then
	echo "$SOURCE_REVISION"
elif [ -e .git ]; then
	git -c safe.directory='*' describe --always --dirty --exclude='*' --abbrev=12 2>/dev/null || echo unknown
else
	sed -n 's/.*"sha1": "\(.\{12\}\).*/\1/p' .cargo_vcs_info.json 2>/dev/null | grep . || echo unknown
fi
