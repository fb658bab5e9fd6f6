#!/bin/sh
# Lints every module of go.work with the linter that "make deps" installed.
set -eu
cd "$(dirname "$0")/.."
linter=$PWD/.cache/bin/golangci-lint config=$PWD/.golangci.yml
[ -x "$linter" ] || { echo 'lint: no golangci-lint; run "make deps"' >&2; exit 1; }
failed=0
for dir in $(scripts/modules.sh all); do
	echo "== $dir: golangci-lint run"
	# A module that has no package yet is no error of its own.
	[ -n "$(cd "$dir" && go list ./... 2>/dev/null)" ] || continue
	(cd "$dir" && "$linter" run --allow-parallel-runners --config "$config" ./...) || failed=1
done
exit $failed
