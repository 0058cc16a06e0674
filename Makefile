# make setup   installs what is missing (Debian 12, root)
# make demo    GIDs, bandwidth and latency on two emulated adapters
# make test    every tier; test-TIER runs one, test-full every row. PKG=./ibv and RUN=regexp narrow it
# docs/testing.md tells the rest.

SHELL := /bin/bash
export GOTOOLCHAIN ?= local
export GOFLAGS ?= -buildvcs=false
export DEBIAN_FRONTEND := noninteractive

RUN ?=
PKG ?=
V ?=

# As test/tiers has them, so that neither builds what the other has built.
FLAGS := -trimpath '-ldflags=-s -w' -gcflags=all=-dwarf=false

# The quick cycle prints as it goes; the long run prints what failed.
TIERS := .build/bin/tiers $(if $(RUN),-run '$(RUN)') $(if $(PKG),-pkg '$(PKG)') $(if $(V)$(RUN),-v)
ALL := lint unit race releases arm64 bench emu rxe
# One after the other: with rxe beside the others a bare machine of 2 processors took 24 minutes instead of about 20, for
# the VM's programs then wait for processors.

.PHONY: all setup build test test-full test-bare test-newcomer test-suite test-slurm test-kube test-libraries test-native test-kernels soak $(addprefix test-,$(ALL) hw rxe-arm64 siw) hw-pack release test-release outdated bench bench-cm bench-emu bench-layer bench-rxe demo docs clean

all: build

setup:
	@scripts/setup

# With the commit in what users run: the tiers build these programs again, without it, so that a commit changes nothing else.
build:
	CGO_ENABLED=0 go build $(if $(shell git rev-parse HEAD 2>/dev/null),-buildvcs=true) $(FLAGS) -o .build/bin/ ./cmd/perf/rdmaperf ./cmd/show_gids ./emu
	CGO_ENABLED=0 go build $(FLAGS) -o .build/bin/ $(if $(wildcard examples/*/*.go),./examples/...) ./test/tiers

.build/bin/tiers: $(wildcard test/tiers/*.go) test/tiers/tiers.yaml
	@CGO_ENABLED=0 go build $(FLAGS) -o .build/bin/ ./test/tiers

# Not on the build: what does not build is a failure of the tiers that need it, and keeps none of the others from running.
# The rest of the set-up runs beside tier lint.
test: .build/bin/tiers
	@rm -f .build/setup-times
	@scripts/setup go
	$(TIERS) -setup $(ALL)

# Every row, in each of its places. Hours.
test-full: setup .build/bin/tiers
	scripts/debian-root bookworm-programs trixie-programs bookworm-browser bookworm-suite trixie-suite sid-suite
	scripts/setup arm64-vm
	scripts/vm siw
	scripts/setup slurm
	scripts/setup kube
	PUREVERBS_FULL=1 $(TIERS) -quiet 3h -timeout 6h $(ALL) rxe-arm64 siw
	$(TIERS) -quiet 3h -e PUREVERBS_FULL=1 -pkg ./cmd/perf/internal/command -run '^TestRXE_(StockCM|OursCM)' rxe-arm64
	$(MAKE) test-kernels
	$(MAKE) test-newcomer
	$(MAKE) test-release

# The packages' tests with the libraries of each Debian release, on both data paths of the emulated device.
test-libraries: setup .build/bin/tiers
	$(TIERS) -only libraries emu

# The packages' tests on the native control path, all of them.
test-native: setup .build/bin/tiers
	$(TIERS) -only native emu

# The native control path on SoftRoCE: rdma_cm with the tests of rdmacm and with stock programs, then the commands on
# the kernels of other releases of Debian.
test-kernels: setup .build/bin/tiers
	GOFLAGS='$(GOFLAGS) -tags=pureverbs_ucma' .build/bin/tiers -pkg ./rdmacm rxe
	GOFLAGS='$(GOFLAGS) -tags=pureverbs_ucma' .build/bin/tiers -pkg ./examples -run '^TestRXECM_' -v rxe
	for r in bullseye trixie sid; do \
		VM_RELEASE=$$r .build/bin/tiers -pkg $(or $(PKG),./internal/kernel/...) $(if $(RUN),-run '$(RUN)' -v) rxe || exit; \
	done

# rdma-core's own tests, of three Debian releases, on an emulated adapter.
test-suite: setup .build/bin/tiers
	scripts/debian-root bookworm-suite trixie-suite sid-suite
	PUREVERBS_FULL=1 .build/bin/tiers -v -quiet 30m -pkg ./test/suite emu

# deploy/rdmaperf-mesh.sbatch on a real Slurm, of virtual nodes. As root.
test-slurm: setup .build/bin/tiers
	scripts/setup slurm
	PUREVERBS_FULL=1 .build/bin/tiers -v $(if $(RUN),-run '$(RUN)') -quiet 30m -pkg ./test/slurm emu

# deploy/kubernetes on a real API server, scheduler and runc. The first run compiles them: six minutes of processor time. As root.
test-kube: setup .build/bin/tiers
	scripts/setup kube
	PUREVERBS_FULL=1 .build/bin/tiers -v $(if $(RUN),-run '$(RUN)') -quiet 30m -pkg ./test/kube emu

# As on a machine where nothing is installed: a fresh clone of HEAD on a minimal Debian 12.
test-bare:
	scripts/bare make test

# The commands of README, as root and as a user, on bare Debian 12 and 13. As root.
test-newcomer:
	scripts/bare scripts/newcomer
	BARE_RELEASE=trixie scripts/bare scripts/newcomer

$(addprefix test-,$(ALL) hw): test-%: .build/bin/tiers
	$(TIERS) $*

# SoftRoCE with Debian's kernel, libraries and programs for arm64. Its packages are for this tier alone.
test-rxe-arm64: setup .build/bin/tiers
	scripts/setup arm64-vm
	$(TIERS) -quiet 30m rxe-arm64

# iWARP: siw in the VM. Its driver is built once, out of Debian's source; the download has 153 MB.
test-siw: setup .build/bin/tiers
	scripts/vm siw
	$(TIERS) -quiet 30m siw

# One tar for a host with an adapter, without Go and without this repository: docs/hardware.md.
hw-pack:
	@scripts/hw-pack

# The files of a release, in dist/: make release VERSION=v0.1.0. It sets no tag.
release:
	@go -C tools/release build -o ../../.build/tools/release .
	@.build/tools/release $(VERSION)

# A release of HEAD as a user installs and runs it, on other systems' roots. As root.
test-release:
	scripts/test-release

# Dependencies that have a newer release.
outdated:
	@scripts/outdated

bench: setup .build/bin/tiers
	.build/bin/tiers -only figures -quiet 30m $(if $(PKG),-pkg '$(PKG)') unit $(if $(shell grep -rl '^func TestRXEFigures' --include=*_test.go cmd examples ibv internal loader),rxe)

bench-emu: setup .build/bin/tiers
	.build/bin/tiers -only ratios -pkg ./test/emubench -quiet 14m -timeout 14m emu

# Package rdma beside raw verbs, TCP and copying.
bench-layer: setup .build/bin/tiers
	.build/bin/tiers -only ratios -pkg ./test/layerbench -quiet 14m -timeout 14m emu

# Memory of idle connections, and connections a second beside cmtime.
bench-cm: setup .build/bin/tiers
	.build/bin/tiers -only ratios -pkg ./rdmacm -quiet 14m -timeout 14m rxe

bench-rxe: setup .build/bin/tiers
	.build/bin/tiers -only ratios -quiet 14m -timeout 14m rxe

# Ten minutes, or SOAK=1h: programs that come, go and are killed, and random operations against a model.
soak: setup build
	PUREVERBS_SOAK=$(or $(SOAK),10m) .build/bin/tiers -quiet 3h -timeout 3h -run 'TestEmuSoak|TestRXE_Soak|TestRXE_Random' emu

# The site of docs/, in .build/site. It needs Node.js 18 or later, and npm.
docs:
	@scripts/setup site
	cd docs && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build

demo: build
	@scripts/setup stock
	scripts/demo

clean:
	rm -rf .build
