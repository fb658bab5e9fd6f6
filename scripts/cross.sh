#!/bin/sh
# Builds the binary without cgo for every platform that is released, into bin/.
set -eu
cd "$(dirname "$0")/.."
for os in linux darwin windows; do
	for arch in amd64 arm64; do
		out=$PWD/bin/postrider-$os-$arch; [ $os != windows ] || out=$out.exe
		echo "== CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build ./cmd/postrider"
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -o "$out" ./cmd/postrider
		# Libraries that the binary does not use must build there, too.
		for dir in $(scripts/modules.sh); do
			(cd "$dir" && CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build ./...)
		done
	done
done
