# Esker's targets; `make help` lists them. Each performs its own setup.

PREFIX ?= /usr/local
DESTDIR ?=
FILES ?=
ARGS ?=

# A newly installed rustup is not yet on the shell's PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin

RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
ESKER := $(RELEASE)/esker
LIBDAOS := $(RELEASE)/libdaos.so
PRELOAD := $(RELEASE)/libesker_preload.so
BUILT := $(ESKER) $(LIBDAOS) $(PRELOAD)
# `esker bench` finds it beside the command, and so do the scripts.
BENCH := $(RELEASE)/esker-bench
# The interception library finds it beside itself, and so do the scripts.
STORE := $(RELEASE)/libesker_preload_store.so
# Also what is compiled in that is not Rust: schemas, help texts, pages.
SOURCES := $(shell find Cargo.toml Cargo.lock crates -type f -not -path '*/tests/*')

.PHONY: build demo test soak check semver bench figures notebooks book site wheel wheels quick install uninstall deb rpm fmt clean help ceph-up ceph-down

build: $(BUILT) $(BENCH) $(STORE) ## Build the command line, its benchmarks, libdaos and the interception library, optimised

# `touch`, because cargo does not rewrite a file whose content would be unchanged.
$(BUILT) $(BENCH) $(STORE) &: $(SOURCES)
	scripts/setup.sh
	cargo build --release -p esker-cli -p esker-bench -p esker-libdaos -p esker-preload -p esker-preload-store
	scripts/third-party.sh >$(RELEASE)/THIRD-PARTY.new && mv $(RELEASE)/THIRD-PARTY.new $(RELEASE)/THIRD-PARTY
	touch $(BUILT) $(BENCH) $(STORE)

demo: ## Run a demo: weather from Python with maps, an ensemble over three nodes, GRIB files, a C program, Field I/O here and on Ceph (FILES="a.grib folder" for your own)
	scripts/setup.sh
	mkdir -p build/demo
	scripts/demo-packages.sh >build/demo/packages.log 2>&1 & packages=$$!; \
	    $(MAKE) --no-print-directory build && wait $$packages || { kill $$packages 2>/dev/null; cat build/demo/packages.log; exit 1; }
	@grep '^continuing' build/demo/packages.log || true
	scripts/wheel.sh build/demo/wheels release
	scripts/demo.sh $(ESKER) $(LIBDAOS) $(FILES)

test: ## Run every test: Rust, ABI, C programs, real programs, Python (ARGS="rust c" for some suites, see scripts/test.sh)
	scripts/setup.sh samples fields fuse fabric fortran python deb rpm recipes
	scripts/setup.sh ceph || echo "continuing without the tests on Ceph"
	scripts/setup.sh slurm || echo "continuing without the tests on Slurm"
	scripts/weather.sh || echo "continuing without the tests that need weather"
	scripts/test.sh $(ARGS)

soak: ## Test with random seeds for 30 minutes, then with Miri, loom and ThreadSanitizer (ARGS="--minutes 600 torture", ARGS=kills, ARGS=explore, ARGS=memory, see scripts/soak.sh)
	scripts/setup.sh fields fuse python
	scripts/soak.sh $(ARGS)

quick: ## Check what has changed on this branch: formats, lints, unit tests, style (ARGS=COMMIT: since that commit)
	scripts/setup.sh lint python
	scripts/quick.sh $(ARGS)

check: ## Check formatting, lints, dependencies and repository style
	scripts/setup.sh lint python
	scripts/check.sh

semver: ## Check that the public crates keep their API within a version (ESKER_SEMVER_BASELINE=COMMIT to compare with another)
	scripts/setup.sh semver
	scripts/semver.sh $(ARGS)

wheel: ## Build the Python package into build/wheels
	scripts/setup.sh python
	scripts/wheel.sh build/wheels release

wheels: ## Build the Python wheels for CPython 3.9 and later on Linux with glibc 2.28 (RHEL 8) into build/wheels
	scripts/setup.sh wheels
	scripts/wheel.sh build/wheels portable

bench: build ## Measure arrays and keys relative to the medium's limit (ARGS= is passed to `esker bench`)
	$(ESKER) bench array $(ARGS)
	$(ESKER) bench kv $(ARGS)

figures: build ## Measure every figure of docs/performance.md on this machine, into build/figures (ARGS=--quick to try it, see scripts/figures)
	scripts/setup.sh python
	build/python/bin/python scripts/figures measure $(ESKER) $(LIBDAOS) $(ARGS)

notebooks: ## Run the notebooks of examples/python/notebooks into build/notebooks, with what they show
	scripts/setup.sh samples fields python
	scripts/weather.sh || echo "continuing without the notebook of weather"
	scripts/wheel.sh build/wheels release
	scripts/notebooks.sh build/wheels

book: ## Build the book of the documentation into build/book/html
	scripts/setup.sh lint
	scripts/book.sh

site: notebooks ## Build the site into build/site: a landing page, the book, the references of Python, C (with Doxygen) and Rust
	scripts/setup.sh lint
	scripts/site.sh $(ARGS)

ceph-up: ## Start a Ceph cluster on loopback in build/ceph (ARGS="--store bluestore --auth FOLDER", see scripts/ceph.sh)
	scripts/setup.sh ceph
	scripts/ceph.sh up $(ARGS)

ceph-down: ## Stop that cluster and remove its data (ARGS=FOLDER for another)
	scripts/ceph.sh down $(ARGS)

install: build ## Install below PREFIX (default /usr/local), staged in DESTDIR if set
	scripts/install.sh $(BUILT) "$(DESTDIR)" "$(PREFIX)"

deb: build ## Build Debian packages into build/deb
	scripts/setup.sh deb
	scripts/deb.sh $(BUILT) build/deb

rpm: build ## Build RPM packages into build/rpm
	scripts/setup.sh rpm
	scripts/rpm.sh $(BUILT) build/rpm

uninstall: ## Remove what `make install` installed below PREFIX
	scripts/uninstall.sh "$(DESTDIR)$(PREFIX)"

fmt: ## Format the Rust sources
	cargo fmt --all

clean: ## Remove all build results
	cargo clean
	rm -rf build

help: ## List these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12
