#!/bin/sh
# Makes the tags of a release, in a throw-away clone of what is committed:
#
#   scripts/release.sh rehearse [VERSION]   and forgets them (CI does this)
#   scripts/release.sh tag VERSION          and fetches them into this repository
#
# On main each go.mod requires its siblings at the next version and replaces them
# by their folders. A released go.mod may not: "go install …@latest" refuses one
# with replace lines. So for each module in order: drop the replaces, tidy
# against the siblings tagged before, build, commit, tag, and serve the result
# from a folder (GOPROXY=file://) to the modules after it.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
root=github.com/postrider/postrider
mode=${1:?usage: release.sh rehearse|tag [VERSION]}
version=${2:-$(sed -n "s,.*$root/outbox \(v[^ ]*\)\$,\1,p" go.mod | head -1)}
released=$(scripts/modules.sh)

tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
# Module caches of its own: a rehearsed version must not be taken for the real
# one later. What is in the usual cache is served from there.
GOPROXY=file://$tmp/proxy,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
GOMODCACHE=$tmp/modcache GONOSUMDB=$root,$root/* GOFLAGS=-modcacherw GOWORK=off
export GOPROXY GOMODCACHE GONOSUMDB GOFLAGS GOWORK

path() { [ "$1" = . ] && echo "$root" || echo "$root/$1"; }
tag() { [ "$1" = . ] && echo "$version" || echo "$1/$version"; }

publish() { # publish DIR: what the Go command would make of the tag
	served=$tmp/proxy/$(path "$1")/@v; mkdir -p "$served"
	prefix=$(path "$1")@$version/
	cp "$1/go.mod" "$served/$version.mod"
	printf '{"Version":"%s","Time":"%s"}\n' "$version" "$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)" >"$served/$version.info"
	echo "$version" >>"$served/list"
	if [ "$1" = . ]; then
		# Folders with a go.mod are other modules.
		git ls-files '*/go.mod' | sed 's,\(.*\)/go.mod,:(exclude)\1,' >"$tmp/nested"
		xargs -d '\n' git archive --format=zip --prefix="$prefix" -o "$served/$version.zip" HEAD -- . <"$tmp/nested"
	else
		# Go adds the repository's licence to a nested module that has none.
		licence=; [ -f "$1/LICENSE" ] || licence=--add-file=LICENSE
		git archive --format=zip --prefix="$prefix" $licence -o "$served/$version.zip" "HEAD:$1"
	fi
}

git clone -q . "$tmp/repo"
cd "$tmp/repo"
git config user.name postrider; git config user.email release@postrider.invalid
for dir in $released; do
	echo "== $(path "$dir") $version"
	for sibling in $released; do
		name=$(path "$sibling")
		(cd "$dir" && go mod edit -dropreplace="$name")
		! grep -q "$name v" "$dir/go.mod" || (cd "$dir" && go mod edit -require="$name@$version")
	done
	(cd "$dir" && go mod tidy && go build ./... && go vet ./...)
	git add -A; git commit -qm "release: $(tag "$dir")" --allow-empty
	git tag "$(tag "$dir")"
	publish "$dir"
done

echo "== as users get it"
mkdir "$tmp/user"; cd "$tmp/user"
go mod init example.com/user >/dev/null 2>&1
for dir in $released; do
	[ "$dir" = cmd/postrider ] || go get "$(path "$dir")@$version"
done
GOBIN=$tmp/bin go install "$root/cmd/postrider@$version"
"$tmp/bin/postrider" version

if [ "$mode" = tag ]; then
	cd "$here"
	for dir in $released; do git fetch -q "$tmp/repo" "refs/tags/$(tag "$dir"):refs/tags/$(tag "$dir")"; done
	echo "release: tags are here; push them with: git push origin$(for dir in $released; do printf ' %s' "$(tag "$dir")"; done)"
else
	echo "release: rehearsed $version"
fi
