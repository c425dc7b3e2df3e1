# Everything here needs Go, make, git and a shell alone, but for `check` (a C compiler).
GO ?= go
FUZZTIME ?= 20s
BIN := build/hermes
export CGO_ENABLED ?= 0

.PHONY: build demo test check bench fuzz long clean

build: ## the binaries, in build/
	$(GO) build -trimpath -ldflags "-s -w" -o build/ ./cmd/...

demo: build ## the main job: sample tasks, an embedded scripted model, real tools and checkers
	@sh scripts/demo.sh $(BIN)

test: ## all tests that need nothing but Go
	$(GO) vet ./...
	$(GO) test ./...

check: ## what a review asks
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	CGO_ENABLED=1 $(GO) test -race -p 1 ./...

bench: build ## figures, on this machine
	$(GO) test -run '^$$' -bench . -benchtime 1s ./...
	$(BIN) bench

fuzz: ## every fuzz target for FUZZTIME
	@sh scripts/fuzz.sh $(FUZZTIME)

long: ## the long forms: a thousand crashes, fifty kills
	$(GO) test -timeout 60m -run Long ./rollout/journal ./rollout/sink -long
	HERMES_KILLS=50 $(GO) test -count=1 -run TestKills ./cmd/hermes

clean:
	rm -rf build
