# Every target says what it does: make help.

ARGS ?=

.PHONY: help deps demo test soak fuzz bench lint fmt build cross release-rehearsal clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' Makefile

deps: ## install what tests and linter need, and say so first (servers, linter, Go 1.24)
	@scripts/deps.sh

demo: ## the whole story in under a minute, without any server
	go run ./cmd/postrider demo $(ARGS)

test: ## test all modules with the race detector, then each alone (installs nothing)
	@scripts/test.sh -timeout 30m $(ARGS)

soak: ## the long tests: full numbers, all chaos rounds, PostgreSQL 17 and 18, every platform
	@POSTRIDER_SOAK=1 POSTRIDER_TEST_PG_VERSIONS="17 18" scripts/test.sh -count=1 -timeout 8h $(ARGS)
	@scripts/cross.sh

fuzz: ## fuzz every decoder; FUZZTIME=30s each
	@scripts/fuzz.sh $(or $(FUZZTIME),30s)

bench: ## run the Go benchmarks of all modules ("postrider bench" measures your own servers)
	@for dir in $$(scripts/modules.sh all); do (cd $$dir && go test -run '^$$' -bench . -benchmem $(ARGS) ./...) || exit 1; done

lint: ## golangci-lint over all modules
	@scripts/lint.sh

fmt: ## format all code the way lint wants it
	@for dir in $$(scripts/modules.sh all); do (cd $$dir && $(CURDIR)/.cache/bin/golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...) || exit 1; done

build: ## build bin/postrider
	CGO_ENABLED=0 go build -trimpath -o bin/postrider ./cmd/postrider

cross: ## build for linux, darwin and windows on amd64 and arm64 (or PLATFORMS="windows/amd64 …")
	@scripts/cross.sh $(PLATFORMS)

release-rehearsal: ## tag and resolve every module in a throw-away copy, offline
	@scripts/release.sh rehearse

clean: ## remove what was built (.cache, which deps fills, stays)
	rm -rf bin
