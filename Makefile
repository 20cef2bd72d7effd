# `make` lists the targets. Development tools are pinned in scripts/tools.mod, outside go.mod.
GO       ?= go
FUZZTIME ?= 5m
ROUNDS   ?= 20
CUTS     ?= 20
SEEDS    ?= 100000
CASES    ?= 300
BYTES    ?= 100000
CLUSTERS ?= 2
SEED     ?=
LIMIT    ?= 0
PACKAGES ?= ./...
FLAGS    ?=
ARGS     ?=
BEFORE   ?=
comma    := ,
LINT     := bin/golangci-lint

.DEFAULT_GOAL := help
.PHONY: help build web web-current browser pictures release release-check package package-check needs test race lint fmt vet golden docs site docs-current tidy-current fuzz bench bench-page bench-peers crash crash-cluster crash-standby powerloss nightly bare-root sim load corrupt conformance clients api-clients recipes check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/orch
	$(GO) build -o bin/orch ./cmd/orch

web: ## build the page into web/dist; needs npm
	cd web && npm ci --no-audit --no-fund && npm test && npm run build

web-current: ## fail if web/dist is not what its sources give; needs npm
	scripts/unchanged $(MAKE) web

browser: build ## run the stories of the page in a Chromium, against a mock of a node and a real one; needs npm and chromium
	cd test/browser && npm ci --no-audit --no-fund && npm test

pictures: build ## make the pictures of the README from a real run; needs npm and chromium
	cd test/browser && npm ci --no-audit --no-fund && node pictures.mjs

release: ## build the programs of a release into dist/, stripped, with their digests
	GO=$(GO) scripts/release

release-check: ## build a release twice, in two clones, and fail if the two differ or weigh too much
	GO=$(GO) scripts/release --check

package: release bin/nfpm bin/cyclonedx-gomod ## build a release, a tar, a deb, an rpm and a list of the parts (SBOM) of each program, and an OCI image
	scripts/image
	scripts/package

package-check: package bin/cosign ## check the image, the unit, the packages, the formula and signatures, and a Debian machine that installs and purges the deb; needs root, debootstrap, lintian, rpm, rpmlint, ruby and systemd-nspawn
	scripts/image-check
	scripts/package-check

needs: ## install the programs that tests need, or say how to get them
	scripts/needs

test: ## run the tests; what this machine lacks programs for is left out and counted
	$(GO) run ./test/report $(FLAGS) $(PACKAGES)

race: ## run the tests with the race detector
	GO=$(GO) scripts/race -timeout 30m $(FLAGS) $(PACKAGES)

lint: $(LINT) ## run the linters and the format check
	$(LINT) run ./...
	$(LINT) run --build-tags failpoint ./internal/failpoint

fmt: $(LINT) ## format the code
	$(LINT) fmt ./...

vet: ## run go vet
	$(GO) vet ./...

golden: ## write the golden files anew; review the difference before you commit it
	ORCH_UPDATE_GOLDEN=1 $(GO) test ./...

docs: ## write the generated pages anew
	$(GO) generate ./...

site: ## write the site of the documentation to dist/site; needs hugo
	hugo --source site --destination ../dist/site --cleanDestinationDir --quiet

docs-current: ## fail if a generated page was out of date
	scripts/unchanged $(GO) generate ./...

tidy-current: ## fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	cd test/collector && $(GO) mod tidy -diff

fuzz: ## run every fuzzer for FUZZTIME (5m)
	scripts/fuzz $(FUZZTIME)

bench: build ## measure, beside the bare message pattern; ARGS='--quick' and other flags
	bin/orch bench $(ARGS)

bench-page: build ## measure what open pages cost a node, and the time from a commit to the page; BEFORE=PROGRAM compares memory and start with another build; needs npm and chromium
	bin/orch bench --rows ui,http$(if $(BEFORE),$(comma)before) --durability fsync $(if $(BEFORE),--before $(BEFORE)) $(ARGS)
	cd test/browser && npm ci --no-audit --no-fund && npm run latency

bench-peers: ## measure asynq, River, DBOS and Restate beside orch, with the same jobs; ARGS='--runs 1' and other flags
	scripts/bench-peers $(ARGS)

crash: ## kill, stop and restart node and workers for ROUNDS (20) rounds, and plant faults that must be found
	ORCH_CRASH_ROUNDS=$(ROUNDS) ORCH_CRASH_CLUSTERS=$(CLUSTERS) ORCH_CRASH_SEED=$(SEED) ORCH_CRASH_SECONDS=$(LIMIT) \
		$(GO) test -tags failpoint ./test/crash ./internal/failpoint -count=1 -v -timeout 2h

crash-cluster: ## the same with agents and messages on three NATS servers, which are killed as well, for ROUNDS (20) rounds
	ORCH_CRASH_CLUSTER_ROUNDS=$(ROUNDS) ORCH_CRASH_SEED=$(SEED) ORCH_CRASH_SECONDS=$(LIMIT) \
		$(GO) test -tags failpoint ./test/crash -run 'TestCrashCluster' -count=1 -v -timeout 2h

crash-standby: ## kill, stop and part the active one of two nodes on three NATS servers for ROUNDS (20) rounds
	ORCH_CRASH_STANDBY_ROUNDS=$(ROUNDS) ORCH_CRASH_SEED=$(SEED) ORCH_CRASH_SECONDS=$(LIMIT) \
		$(GO) test ./test/crash -run 'TestCrashStandby' -count=1 -v -timeout 3h

powerloss: ## cut the power CUTS (20) times under load and check that nothing acknowledged is lost; needs root
	ORCH_POWER_CUTS=$(CUTS) $(GO) test ./bus -run TestPowerLoss -count=1 -v -timeout 1h

sim: ## simulate the owner of tasks with SEEDS (100,000) schedules of faults
	GOGC=400 ORCH_SIM_SEEDS=$(SEEDS) $(GO) test ./test/sim -run 'TestSeeds$$' -count=1 -v -timeout 2h

load: ## 100,000 tasks at once, waiters, pollers, and bad tools beside good ones
	ORCH_LOAD_FULL=1 $(GO) test ./test/load -count=1 -v -timeout 30m

corrupt: ## damage CASES (300) files of a store, one at a time, flip BYTES (100,000) bytes of a small one, and check that every damage is noticed
	ORCH_CORRUPT_CASES=$(CASES) ORCH_CORRUPT_BYTES=$(BYTES) ORCH_CORRUPT_QUIET=$(CASES) \
		$(GO) test ./test/corrupt -run 'TestCorruption|TestEveryByte' -count=1 -v -timeout 2h

conformance: build ## run the MCP conformance suite against the binary; needs npm
	scripts/mcp/run conformance.mjs $(ARGS)

clients: build ## run MCP clients (TypeScript SDK 1.x and 2.x, Inspector) against the binary, and an agent on an npm package; needs npm
	scripts/mcp/run --test --test-reporter=spec
	ORCH_FIRSTHOUR_NPM=1 $(GO) test ./mcp/firsthour -run 'TestAgent/repositories/process-warning$$' -count=1

api-clients: build ## check docs/reference/openapi.json, and run clients that are made from it against the binary; needs npm, python3 and, for the generator of the Python client, scripts/needs
	cd test/clients && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm test

recipes: ## follow every recipe of CONTRIBUTING.md literally
	ORCH_RECIPES=all $(GO) test ./test/recipes -count=1 -v -timeout 30m

bare-root: ## make a Debian root with Go, git and make alone, and run there what the README says; needs root and debootstrap
	scripts/bare-root

nightly: needs race crash crash-cluster crash-standby powerloss sim load corrupt fuzz conformance clients api-clients recipes release-check package-check bare-root ## everything in full size: what continuous integration runs smaller or without the race detector

check: needs lint vet race docs-current tidy-current ## everything that must hold before a merge

$(LINT): scripts/tools.mod scripts/tools.sum
	$(GO) build -modfile=scripts/tools.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/cyclonedx-gomod: scripts/package
	GOBIN=$(CURDIR)/bin $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

bin/cosign: scripts/package-check
	GOBIN=$(CURDIR)/bin $(GO) install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3

bin/nfpm: scripts/package
	GOBIN=$(CURDIR)/bin $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
