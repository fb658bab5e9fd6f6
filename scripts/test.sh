#!/bin/sh
# Tests every module of go.work with the race detector; then each released
# module alone as its users get it (GOWORK=off: the versions that its own go.mod
# says); then outbox with the oldest Go it promises. "go test ./..." at the root
# would leave the nested modules out without a word. Installs nothing.
# Arguments go to each go test.
set -eu
cd "$(dirname "$0")/.."
. scripts/versions.sh
failed=
step() { # step DIR COMMAND…
	dir=$1; shift
	echo "== $dir: $*"
	(cd "$dir" && env "$@") || failed="$failed\n  $dir: $*"
}
for dir in $(scripts/modules.sh all); do step "$dir" go test -race "$@" ./...; done
# -short: this pass is about versions, and the long rounds have been played above.
for dir in $(scripts/modules.sh); do step "$dir" GOWORK=off go test -short "$@" ./...; done
step outbox GOWORK=off GOTOOLCHAIN="$GO_OLD" go test "$@" ./...
if [ -n "$failed" ]; then printf "FAILED:%b\n" "$failed"; exit 1; fi
echo "test: all modules passed"
