# Thin on purpose: each line is a command a person could type.
.PHONY: help setup demo test lint lint-types lint-files unit sanity bench packages fuzz mutants faults canary dkms repositories rocm clean
GPUFLEET := .venv/bin/gpufleet
export PATH := $(CURDIR)/.venv/bin:$(PATH)

help:
	@echo "make demo    rehearse the production fleet on this machine, end to end, and write report.html"
	@echo "make test    linters and every test (Pulumi's engine and booted hosts included)"
	@echo "make lint    linters only      make unit    tests that need neither engine nor hosts"
	@echo "make faults  break things at random moments and check what must hold   make canary  search for planted secrets"
	@echo "make dkms    compile Debian's NVIDIA modules for Debian's kernel   make repositories  resolve driver plans with apt and dnf"
	@echo "make bench   measured claims   make mutants change the code at random places; do the tests notice?"
	@echo "make packages  also the long tests of dnf with signed packages, streams and version locks"
	@echo "make sanity  ansible-test sanity and ansible-lint on the built collection"
	@echo "PYTHON=python3.13 after any of these: the newest ansible-core; with Python 3.11 the oldest"
	@echo "make fuzz    100,000 mutated inputs for every parser; FUZZ=\"--target rack --count 1000 --seed 2\" for less"
	@echo "make clean   end this checkout's rehearsals, remove what make made"

setup:
	@.ci/setup

demo: setup
	$(GPUFLEET) doctor --fix
	$(GPUFLEET) rehearse demo -s production

# Side by side: the types of Python take as long as everything else.
lint: setup
	@$(MAKE) --no-print-directory -j2 -Otarget lint-types lint-files

lint-types:
	mypy
	mypy stacks

lint-files:
	ruff check .
	ruff format --check .
	lint-imports
	yamllint --strict .
	cd modules/ansible_collections/gpufleet/fleet && ansible-lint --offline
	shellcheck .ci/setup .ci/run .ci/tests .ci/sanity .ci/lock .ci/cost .ci/audit .ci/workflows .ci/release modules/gpufleet/cost/data/policy_pack/*.sh
	.ci/workflows

unit: setup
	pytest -m "not engine and not hosts"

test: setup
	$(GPUFLEET) doctor --fix --tests
	$(MAKE) --no-print-directory lint
	.ci/tests

packages: setup
	pytest --all-packages tests/packages

# The collection as ansible-galaxy installs it; .ci/sanity pylint runs one test. Takes minutes.
sanity: setup
	.ci/sanity

bench: setup
	for bench in tests/benchmarks/bench_*.py; do echo "== $$bench"; python "$$bench" || exit 1; done

# FUZZ="--target rack --count 1000 --seed 2" chooses; the same command goes on where it was stopped.
fuzz: setup
	nice -n 19 python tests/fuzz/campaign.py $(FUZZ)

# ROOM="cost catalog" COUNT=15 SEED=1 are what can be chosen; without ROOM every room is sampled.
mutants: setup
	nice -n 19 python tests/mutation --room $(ROOM) --count $(or $(COUNT),15) --seed $(or $(SEED),1)

# Every kind of fault so often, each run with a seed of its own; --kind, --seed: python -m faults.campaign --help.
faults: setup
	PYTHONPATH=tests python -m faults.campaign --count $(or $(COUNT),15) --seed $(or $(SEED),1)

canary: setup
	PYTHONPATH=tests python -m canary.job --demo production

# On a booted host, for Debian's own kernel: 5 to 30 minutes of one processor (docs/os-upgrades.md).
dkms: setup
	PYTHONPATH=tests nice -n 15 python -m dkms.job

# Against the vendors' real repositories: REPOSITORIES="--system debian-12 --root" chooses (docs/drivers.md).
repositories: setup
	PYTHONPATH=tests python -m repositories.job $(REPOSITORIES)
# Debian 13's own ROCm, as planned, on a booted host: 775 MB of packages, 4.7 GB of disk while it runs.
rocm: setup
	pytest tests/roles/rocm_debian.py

clean:
	-$(GPUFLEET) rehearse down --all
	rm -rf .venv .gpufleet artifacts .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
