#!/usr/bin/env bash
# Prints the commit from which a binary is built: the one that the builder names in SOURCE_REVISION, or
# that of the repository, with "-dirty" behind it if files were changed.
set -euo pipefail

cd "$(dirname "$0")/../.."
if [ -n "${SOURCE_REVISION:-}" ]; then
	echo "$SOURCE_REVISION"
else
	git -c safe.directory='*' describe --always --dirty --exclude='*' --abbrev=12 2>/dev/null || echo unknown
fi
