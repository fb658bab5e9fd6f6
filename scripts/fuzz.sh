#!/bin/sh
# Runs every fuzz test of every module for a while: scripts/fuzz.sh 30s
set -eu
cd "$(dirname "$0")/.."
for dir in $(scripts/modules.sh all); do
	(cd "$dir" && grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do
		[ "$(cd "$(dirname "$file")" && go env GOMOD)" = "$PWD/go.mod" ] || continue # a nested module's
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r name; do
			echo "== $dir: go test -run ^\$ -fuzz ^$name\$ $(dirname "$file")"
			go test -run '^$' -fuzz "^$name\$" -fuzztime "${1:-30s}" "./$(dirname "$file")" </dev/null
		done
	done)
done
