#!/bin/sh
# Builds without cgo for the platforms that are released, or for those named:
# the binary into bin/, and every library, used by the binary or not.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
for platform in "$@"; do
	export CGO_ENABLED=0 GOOS="${platform%/*}" GOARCH="${platform#*/}"
	out=$PWD/bin/postrider-$GOOS-$GOARCH; [ "$GOOS" != windows ] || out=$out.exe
	echo "== CGO_ENABLED=0 GOOS=$GOOS GOARCH=$GOARCH go build ./cmd/postrider"
	go build -trimpath -o "$out" ./cmd/postrider
	for dir in $(scripts/modules.sh); do (cd "$dir" && go build -trimpath ./...); done
done
