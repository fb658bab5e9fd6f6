#!/bin/sh
# Prints the folders of the released modules, each after those it requires; with
# "all" those of every module in go.work.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = all ]; then
	go work edit -json | sed -n 's/.*"DiskPath": "\(.*\)".*/\1/p'
	exit
fi
for dir in outbox . broker/aws broker/pubsub cmd/postrider; do
	[ ! -f "$dir/go.mod" ] || echo "$dir"
done
