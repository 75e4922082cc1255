# Thin on purpose: each line is a command a person could type.
.PHONY: help setup demo test lint unit bench faults clean
GPUFLEET := .venv/bin/gpufleet
export PATH := $(CURDIR)/.venv/bin:$(PATH)

help:
	@echo "make demo    rehearse the production fleet on this machine, end to end, and write report.html"
	@echo "make test    linters and every test (Pulumi's engine and booted hosts included)"
	@echo "make lint    linters only      make unit    tests that need neither engine nor hosts"
	@echo "make faults  the fault campaign: seeded kills, broken networks, disks, clocks, files, and what must hold"
	@echo "make bench   measured claims   make clean   end the rehearsals, remove what make made"

setup:
	@.ci/setup

demo: setup
	$(GPUFLEET) doctor --fix
	$(GPUFLEET) rehearse demo -s production

lint: setup
	ruff check .
	ruff format --check .
	mypy -p gpufleet
	lint-imports
	yamllint --strict .
	cd playbooks && ansible-lint --offline
	shellcheck .ci/setup .ci/run .ci/tests .ci/lock .ci/cost modules/gpufleet/cost/data/policy_pack/*.sh

unit: setup
	pytest -m "not engine and not hosts"

test: setup
	$(GPUFLEET) doctor --fix --tests
	$(MAKE) --no-print-directory lint
	.ci/tests

bench: setup
	for bench in tests/benchmarks/bench_*.py; do echo "== $$bench"; python "$$bench" || exit 1; done

faults: setup
	PYTHONPATH=tests python -m faults.campaign --count 15

clean:
	-$(GPUFLEET) rehearse down --all
	rm -rf .venv .gpufleet artifacts .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
