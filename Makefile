# `make` lists the targets. Development tools are pinned in scripts/tools.mod, outside go.mod.
GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 5m
ROUNDS   ?= 20
CLUSTERS ?= 2
SEED     ?=
LIMIT    ?= 0
ARGS     ?=
LINT     := bin/golangci-lint

.DEFAULT_GOAL := help
.PHONY: help build test race lint fmt vet golden docs docs-current tidy-current fuzz bench bench-peers crash check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/orch
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/orch ./cmd/orch

test: ## run the tests
	$(GO) test ./...

race: ## run the tests with the race detector
	$(GO) test -race ./...

lint: $(LINT) ## run the linters and the format check
	$(LINT) run ./...
	$(LINT) run --build-tags failpoint ./internal/failpoint ./internal/crash

fmt: $(LINT) ## format the code
	$(LINT) fmt ./...

vet: ## run go vet
	$(GO) vet ./...

golden: ## write the golden files anew; review the difference before you commit it
	ORCH_UPDATE_GOLDEN=1 $(GO) test ./...

docs: ## write the generated pages anew
	$(GO) generate ./...

docs-current: ## fail if a generated page was out of date
	scripts/unchanged $(GO) generate ./...

tidy-current: ## fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff

fuzz: ## run every fuzzer for FUZZTIME (5m)
	scripts/fuzz $(FUZZTIME)

bench: build ## measure, beside the bare message pattern; ARGS='--quick' and other flags
	bin/orch bench $(ARGS)

bench-peers: ## measure asynq and River beside orch, with the same jobs; ARGS='--runs 1' and other flags
	scripts/bench-peers $(ARGS)

crash: ## kill, stop and restart node and workers for ROUNDS (20) rounds, and plant faults that must be found
	ORCH_CRASH_ROUNDS=$(ROUNDS) ORCH_CRASH_CLUSTERS=$(CLUSTERS) ORCH_CRASH_SEED=$(SEED) ORCH_CRASH_SECONDS=$(LIMIT) \
		$(GO) test -tags failpoint ./internal/crash ./internal/failpoint -run 'TestCrash|TestTeeth|TestLooks|TestPoints' -count=1 -v -timeout 2h

check: lint vet race docs-current tidy-current ## everything that must hold before a merge

$(LINT): scripts/tools.mod scripts/tools.sum
	$(GO) build -modfile=scripts/tools.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
