# Everything works from a bare clone with Python >= 3.11, git and make. Paths stay relative: the folder may have spaces.
#
#   make run      set up, then serve the UI and start the example run (EXAMPLE=0: without it; SERVE="--port 9000": flags)
#   make test     set up with the development tools, then make check, the UI's unit tests and pytest (PYTEST="-k name")
#   make check    formatting, lint, types and walls, in Python and in the front end; then make audit
#   make audit    known vulnerabilities of every pinned package, where the registries answer (AUDIT=--strict)
#   make bench    measure this machine in 20 minutes: the engine beside a plain loop (BENCH="peers": what and flags)
#   make clean    remove what was built, .venv included; never the home folder
#   PYTHON=...    the interpreter for .venv, where the one found on PATH is not wanted

.DEFAULT_GOAL := run
.PHONY: run test check audit bench clean setup setup-dev

# Kept out of the shell's way: nothing of the user's environment may change what is installed or tested.
unexport PYTHONPATH
unexport PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PYTHON ?=
EXAMPLE ?= 1
SERVE ?=
PYTEST ?=
BENCH ?=
PY := .venv/bin/python
UI := $(PY) frontend/build_hook.py
PIP := $(PY) -m pip install --quiet -c constraints.txt
FIND_PYTHON := for python in "$(PYTHON)" python3.11 python3.12 python3.13 python3.14 python3 python; do \
  [ -n "$$python" ] && "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && break; python=; done; \
  [ -n "$$python" ] || { echo "make: no Python 3.11 or later with venv found on PATH; install one (Debian: apt install python3 python3-venv) or say PYTHON=/path/to/python" >&2; exit 1; }

# $(call install,what,extra): one stamp per kind of set-up, holding a hash of all that decides it. The folder is part of it,
# since an editable install names it. The set-up for development holds everything that the one for running does.
define install
	@stamp=".venv/.horizon-$(1)"; \
	asked="$$(pwd; cat pyproject.toml constraints.txt frontend/build_hook.py)"; \
	asked="$$(printf '%s' "$$asked" | cksum)"; \
	[ -f "$$stamp" ] && [ "$$(cat "$$stamp")" = "$$asked" ] && $(PY) -c '' 2>/dev/null && exit 0; \
	$(PY) -m pip --version >/dev/null 2>&1 || { \
	  $(FIND_PYTHON); echo "make: creating .venv with $$("$$python" --version 2>&1)"; \
	  rm -rf .venv && "$$python" -m venv .venv || exit 1; }; \
	rm -f .venv/.horizon-*; \
	echo "make: installing Python packages into .venv (about a minute the first time)"; \
	$(PIP) hatchling editables || exit 1; \
	needs="$$($(UI) requires)" || exit 1; \
	[ -z "$$needs" ] || $(PIP) "$$needs" || exit 1; \
	$(PIP) --no-build-isolation -e ".$(2)" || exit 1; \
	for stamp in $(3); do printf '%s' "$$asked" > ".venv/.horizon-$$stamp"; done
	@$(UI) build
endef

setup:
	$(call install,run,,run)

setup-dev:
	$(call install,dev,[dev],dev run)

run: setup
	@exec $(PY) -m horizon_app serve $(if $(filter 0 no off false,$(EXAMPLE)),--no-example,--example) $(SERVE)

check: setup-dev
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m pyright
	@.venv/bin/lint-imports --no-logo
	@$(UI) npm run check
	@$(PY) -m tests.support.audit

audit: setup-dev
	@$(PY) -m tests.support.audit $(AUDIT)

test: check
	@$(UI) npm test
ifneq ($(PYTEST),)
	@$(PY) -m pytest $(PYTEST)
else
	@# As many tests side by side as there are cores, each computing on one; then the browser alone, which has deadlines.
	@OMP_NUM_THREADS=1 $(PY) -m pytest -n auto --dist worksteal -m "not e2e"
	@$(PY) -m pytest -m e2e
endif

bench: setup-dev
	@$(PY) -m tests.bench $(BENCH)

clean:
	rm -rf .venv frontend/node_modules frontend/dist dist build .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
