# Every verb is one line; README and .ci/run call these.
.DEFAULT_GOAL := help
.PHONY: help run test check prove bench proto lock
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

help: ## list the verbs
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 8

run: ## deal and play hands from a sealed shoe, every card's proof checked
	@deploy/setup.sh run && $(BIN)/python -m dealer demo

test: ## install what tests need, check the code, run every test in its small form
	@deploy/setup.sh dev && deploy/check.sh && $(PYTEST)

check: ## lint, types, import contracts, protos; under 50 s
	@deploy/setup.sh dev && deploy/check.sh

prove: ## every test with its full counts (hours); prints what docs/evidence/ records
	@deploy/setup.sh dev && PROVE=1 $(PYTEST) --timeout 0 -v

bench: ## the ratios of every speed bar
	@deploy/setup.sh dev && $(BIN)/python -m benchmarks

proto: ## generate rngsvc/v1 and dealer/v1 from proto/
	@deploy/setup.sh dev && deploy/generate_proto.sh

lock: ## resolve both locks anew
	@deploy/setup.sh dev && deploy/lock.sh
