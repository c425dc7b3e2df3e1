# Everything here needs Go, make, git and a shell alone, but for `check` (a C compiler) and
# `tokenizers` (cargo and a C++ compiler).
GO ?= go
FUZZTIME ?= 20s
PREFIX ?= /usr/local
BIN := build/hermes
export CGO_ENABLED ?= 0

.PHONY: build install slotd demo engine sshd pages servers test check debugger lean supply attack bench fuzz long tokenizers test-tokenizers clean

build: slotd ## the binaries, in build/
	$(GO) build -trimpath -tags slotd -ldflags "-s -w" -o build/ ./cmd/hermes
	@echo "built: $(CURDIR)/$(BIN)"

install: build ## hermes in PREFIX/bin
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 $(BIN) "$(DESTDIR)$(PREFIX)/bin/hermes"
	@echo "installed: $(DESTDIR)$(PREFIX)/bin/hermes"

slotd: ## the small program of boxes, which hermes embeds
	GOOS=linux $(GO) build -trimpath -ldflags "-s -w" -o build/slotd ./cmd/slotd
	$(GO) run ./backends/slotd/program/pack build/slotd backends/slotd/program/slotd.zst

demo: build ## the main job: sample tasks, an embedded scripted model, real tools and checkers
	@sh scripts/demo.sh $(BIN)

test: ## all tests that need nothing but Go
	$(GO) vet ./...
	$(GO) test -timeout 30m $(TESTFLAGS) ./...

check: ## what a review asks
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet ./... # a build without the boxes that need Linux
	$(GO) tool staticcheck ./...
	@$(MAKE) --no-print-directory debugger lean
	CGO_ENABLED=1 $(GO) test -race -p 1 -timeout 60m ./...

debugger: ## a build for a debugger, and boxes made by it
	$(GO) build -gcflags='all=-N -l' -o build/debugger/ ./cmd/...
	$(GO) test -count=1 -timeout 30m -gcflags='all=-N -l' -run 'TestCommands|TestPlay|TestBecome|TestOrphans' ./backends/namespace/pid1
	build/debugger/hermes sandbox exec --backend auto -- true

lean: ## a build without the agent half (tag lean): what it says of itself
	$(GO) build -trimpath -tags lean -ldflags "-s -w" -o build/lean/ ./cmd/hermes
	build/lean/hermes version
	build/lean/hermes help >/dev/null
	@! build/lean/hermes help chat 2>/dev/null || { echo "chat is in the lean build"; exit 1; }
	@ls -l build/lean/hermes

supply: ## the modules that hermes is linked from: their sums, licences (NOTICE) and known vulnerabilities
	$(GO) mod verify
	scripts/notice.sh check
	scripts/vulns.sh

attack: ## the attacks of scripts/attacks.txt on boxes, tools, servers, readers and rewards, and a table; LONG=1 for the long form
	@GO=$(GO) LONG=$(LONG) scripts/attack.sh

bench: build ## figures, on this machine
	$(GO) test -tags slotd -run '^$$' -bench . -benchtime 1s ./...
	$(BIN) bench --shape plain
	$(BIN) bench --shape tool
	$(BIN) bench --shape long

engine: ## what needs a Docker engine, on one of its own (root; Debian packages docker.io and debootstrap)
	@host=$$(scripts/docker.sh start) && { \
		export HERMES_TEST_DOCKER=$$host; \
		$(GO) test -timeout 30m -p 1 ./backends/docker ./internal/build ./envs/terminalbench && $(GO) test -timeout 30m -run 'TestDocs/sandboxes|TestEngineDies' ./cmd/hermes; \
		code=$$?; scripts/docker.sh stop; exit $$code; }

sshd: ## what needs a real sshd, on one of its own on the loopback (Debian package openssh-server)
	@dir=$$(sh scripts/sshd.sh start) && { HERMES_TEST_SSH=$$dir $(GO) test -count=1 -timeout 30m -p 1 ./backends/ssh; code=$$?; sh scripts/sshd.sh stop; exit $$code; }

pages: ## what needs a real browser (Debian package chromium)
	@program=$$(sh scripts/chromium.sh) && HERMES_TEST_CHROMIUM=$$program $(GO) test -count=1 -timeout 45m -run Chromium ./internal/viewer ./cmd/hermes

servers: ## what needs real model servers (about 7 GB in ~/.cache/hermes-test, Python 3.11); LONG=-long for 200 rollouts a wire
	@dir=$$(sh scripts/servers.sh start) && { HERMES_TEST_SERVERS=$$dir $(GO) test -count=1 -timeout 60m -v -run TestServers ./cmd/hermes $(LONG); code=$$?; sh scripts/servers.sh stop; exit $$code; }

fuzz: ## every fuzz target for FUZZTIME
	@sh scripts/fuzz.sh $(FUZZTIME)

long: ## the long forms: a thousand crashes, ten thousand damages, fifty kills, 200 exact rollouts on each wire of real servers
	$(GO) test -timeout 60m -run Long ./rollout/journal ./rollout/sink -long
	$(GO) test -timeout 60m -run TestTokenIdentity ./rollout/policy/exact -long
	$(GO) test -timeout 60m -run TestItLearns ./cmd -long
	$(GO) test -timeout 60m -run TestNoByteVanishes ./parsers -long # a million damaged texts
	$(GO) test -timeout 60m -run 'Faults|Soak|Attribution' ./backends/pool -long
	$(GO) test -timeout 60m -run 'Escapes|Killed|Programs' ./backends/namespace -long
	$(GO) test -timeout 60m -run TestContract ./backends/local -long # a folder of a million files, input that nobody reads
	$(GO) test -timeout 60m -run 'Faults|Attribution' ./backends/docker ./backends/ssh ./backends/nomad ./backends/singularity ./backends/modal -long
	$(GO) test -timeout 60m -run TestContract ./backends/local ./backends/namespace ./backends/docker -long # a folder of a million files
	$(GO) test -timeout 60m -run 'Escapes|Kills' ./backends/docker -long # skips without HERMES_TEST_DOCKER
	$(GO) test -count=1 -timeout 30m -v -run TestRunAPIAttack ./cmd/hermes -long
	$(MAKE) servers LONG=-long
	HERMES_KILLS=50 $(GO) test -count=1 -timeout 30m -run TestKills ./cmd/hermes
	HERMES_TEST_ROWS=1000000 $(GO) test -count=1 -timeout 30m -run TestRealRows ./cmd/hermes
	HERMES_KILLS=20 $(GO) test -count=1 -timeout 30m -run TestCompressKills ./cmd/hermes
	HERMES_KILLS=20 $(GO) test -count=1 -timeout 30m -run "TestRunAPIKills|TestPipeline" ./cmd/hermes

tokenizers: ## libtokenizers.a from its Rust sources, in build/hftokenizers; needs cargo and a C++ compiler
	@GO=$(GO) sh scripts/tokenizers.sh

test-tokenizers: tokenizers ## the bound tokenizer library against the conformance suite
	CGO_ENABLED=1 $(GO) vet -tags hftokenizers ./parsers/tokenizer/hf
	CGO_ENABLED=1 $(GO) test -tags hftokenizers ./parsers/tokenizer/hf

clean:
	rm -rf build backends/slotd/program/slotd.zst
