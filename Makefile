# Two commands do everything on a fresh machine: `make demo` and `make test`. `make help` lists all of them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SUDO   := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# Tests start many processes: with it, each of them would compile all sources anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo quick test test-full test-openstack test-openstack-full test-openstack-short test-bosh test-vsphere-new test-packages test-incus test-incus-short test-incus-full test-lxd demo-real bench-incus lint docs screenshots bench bench-openstack release constraints install packages clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-22s %s\n", $$1, $$2}'

demo: $(VENV)/.installed ## deploy, change and delete a cluster on the simulated datacenter
	@$(BIN)/coterie demo

WORKERS ?= 6 # more than cores: most tests wait for processes, leases and clouds
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist worksteal --durations=25

# Packages without processes and servers, and the contract's tests on the simulated cloud.
QUICK := tests/manifest tests/plan tests/group tests/ring tests/seal tests/settings tests/cpi/kit \
         tests/cpi/wire tests/cpi/drivers/sandbox

quick: $(VENV)/.tested ## while you work, about two minutes: packages without I/O, the sandbox's conformance
	$(BIN)/pytest -n 2 -m "not full and not openstack and not incus" $(QUICK)
	$(BIN)/pytest -n 2 -m "not full and not openstack and not incus" tests/cpi/test_conformance.py -k sandbox

test: packages $(VENV)/.tested lint ## everything that decides whether a change lands
	$(PYTEST) -m "not full and not openstack and not incus"

test-full: packages $(VENV)/.tested lint ## the long matrices too
	$(PYTEST) -m "not openstack and not incus"

OPENSTACK := tests/cpi/drivers/openstack tests/cpi/drivers/test_fencing.py tests/cpi/test_conformance.py tests/cleanup/accidents

test-openstack: $(VENV)/.tested ## against a real OpenStack: brings it up (Debian), runs the tests, takes it down
	$(PYTHON) -m tests.peers.openstack run $(BIN)/pytest -p no:xdist -m "openstack and not full" $(OPENSTACK)

test-openstack-full: $(VENV)/.tested ## the same with kills after every single call
	$(PYTHON) -m tests.peers.openstack run $(BIN)/pytest -p no:xdist -m openstack $(OPENSTACK)

test-openstack-short: $(VENV)/.tested ## create, server group, delete and a kill against the real Nova
	$(PYTHON) -m tests.peers.openstack run $(BIN)/pytest -p no:xdist -m "openstack and short" $(OPENSTACK)

test-vsphere-new: $(VENV)/.tested ## the vSphere driver on the newest simulator of a vCenter, with govc as witness; needs Go
	folder=$$(tests/peers/vcsim/build-newest) && COTERIE_VCSIM=$$folder $(BIN)/pytest -q -m "not openstack and not incus" -k vsphere \
	  tests/cpi/drivers/vsphere tests/cpi/test_conformance.py

INCUS := tests/cpi/drivers/incus tests/cpi/test_conformance.py tests/cpi/drivers/test_fencing.py \
         tests/cleanup/accidents tests/bosh/test_incus_program.py

test-incus: $(VENV)/.tested ## against real Incus clusters of three members, one for each worker: brings them up (Debian, root), runs the tests, takes them down
	$(BIN)/python -m tests.peers.incus run --clusters 3 --machines $(BIN)/pytest -n 3 --dist worksteal --durations=25 -m "incus and not full" $(INCUS)

test-incus-short: $(VENV)/.tested ## the same without virtual machines; CI runs it
	$(BIN)/python -m tests.peers.incus run --clusters 3 $(BIN)/pytest -n 3 --dist worksteal --durations=25 -m "incus and not full" -k "not virtual_machines" $(INCUS)

test-incus-full: $(VENV)/.tested ## the same with all accidents around deletions
	$(BIN)/python -m tests.peers.incus run --clusters 3 --machines $(BIN)/pytest -n 3 --dist worksteal -m incus $(INCUS)

test-lxd: $(VENV)/.tested ## the same tests on real clusters of LXD, built from its source; needs Go and gcc (Debian 12, root)
	COTERIE_LXD=$$($(BIN)/python -m tests.peers.lxd.build) && export COTERIE_LXD && \
	  $(BIN)/python -m tests.peers.incus run --clusters 3 $(BIN)/pytest -n 3 --dist worksteal -m "incus and not full" $(INCUS)

demo-real: $(VENV)/.tested ## a deployment on real machines: a three-member Incus cluster in namespaces of this machine (root)
	$(BIN)/python -m tests.peers.incus demo

bench-incus: $(VENV)/.tested ## 30 machines made and deleted, against a bare loop of the same calls
	PYTHONPATH=.:tests/cpi $(BIN)/python -m tests.peers.incus run $(BIN)/python bench/incus.py

test-bosh: $(VENV)/.tested ## the BOSH release with the real bosh CLI and agent; needs Go; as root on a real Incus cluster, too
	bosh=$$(tests/peers/bosh/build) && COTERIE_BOSH=$$bosh $(BIN)/pytest -n 0 -v tests/deploy/test_bosh_cli.py tests/deploy/test_create_env.py
	[ "$$(id -u)" != 0 ] || COTERIE_BOSH=$$(tests/peers/bosh/build) $(BIN)/python -m tests.peers.incus run \
	  $(BIN)/pytest -n 0 -v tests/deploy/test_create_env_incus.py

test-packages: $(VENV)/.tested ## the Debian package installed on a view of this machine (as root), the chart read by helm; needs Go
	@wanted=""; \
	/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || wanted="$$wanted python3-venv"; \
	[ -z "$$wanted" ] || { $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$wanted >/dev/null; }
	folder=$$(mktemp -d) && $(BIN)/python deploy/deb/build.py --output "$$folder" && helm=$$(tests/peers/helm/build) && \
	  COTERIE_DEB=$$(echo "$$folder"/*.deb) COTERIE_HELM=$$helm $(BIN)/pytest -n 0 -v tests/deploy/test_deb.py tests/deploy/test_chart.py; \
	  ended=$$?; rm -rf "$$folder"; exit $$ended

lint: $(VENV)/.tested ## ruff, mypy, import-linter, the check of words
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check -q .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.words

screenshots: packages $(VENV)/.tested ## make the two pictures of the console in the docs again; needs a browser
	$(BIN)/python -m tests.console.pictures docs

docs: $(VENV)/.tested ## write the pages and the client's methods, which are made from the code
	$(BIN)/python -m tests.client.generate src/coterie/client
	$(BIN)/python -m coterie.cli.reference > docs/cli.md
	$(BIN)/python -m coterie.settings.reference > docs/settings.md
	$(BIN)/python -m coterie.manifest.reference docs/
	$(BIN)/python -m tests.cleanup.accidents.page

bench: $(VENV)/.tested ## prints ratios; asserts nothing
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python bench/deploy.py
	$(BIN)/python -m bench.scale
	$(BIN)/python bench/cli.py
	$(BIN)/python bench/cleanup.py
	$(BIN)/python -m bench.console
	$(BIN)/python bench/cpi.py
	$(BIN)/python bench/cpi_calls.py
	$(BIN)/python bench/ring.py
	$(BIN)/python bench/cluster.py
	PYTHONPATH=.:tests/cpi $(BIN)/python bench/vsphere.py

bench-openstack: $(VENV)/.tested ## the same against the real OpenStack
	PYTHONPATH=.:tests/cpi $(PYTHON) -m tests.peers.openstack run $(BIN)/python bench/openstack.py

release: $(VENV)/.tested ## wheel, source archive, SBOM and checksums in dist/, from the committed sources
	$(BIN)/python deploy/release/build.py

constraints: $(VENV)/.tested ## choose and pin the newest versions of what a release needs
	$(BIN)/python deploy/release/lock.py

install: $(VENV)/.installed ## into .venv

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Coterie needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

packages: ## what the tests need and pip cannot give: PostgreSQL, ruby's ERB, zsh, fish, openssl, a browser, axe-core, a simulated vCenter
	@wanted=""; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$$wanted postgresql"; \
	command -v ruby >/dev/null || wanted="$$wanted ruby"; \
	for shell in zsh fish; do command -v $$shell >/dev/null || wanted="$$wanted $$shell"; done; \
	command -v openssl >/dev/null || wanted="$$wanted openssl"; \
	command -v chromium >/dev/null || grep -qx ID=ubuntu /etc/os-release || wanted="$$wanted chromium fonts-dejavu-core"; \
	command -v npm >/dev/null || wanted="$$wanted npm"; \
	[ -z "$$wanted" ] || { $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$wanted >/dev/null; }
	@tests/peers/vcsim/build >/dev/null
	@tests/peers/axe/fetch >/dev/null

clean: ## remove .venv and the demo
	rm -rf $(VENV) .demo
