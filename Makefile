# Each command installs what it needs into .venv first, or into an environment of its own.
#
# For users
#   make book       execute the chapters and build the site into _build/html
#   make chapter    run one chapter with other parameters   (CHAPTER=03 ARGS='-p n_negatives 500')
#   make lab        open the chapters in JupyterLab; what is saved there changes text and notebook
#   make slides     make slides of four lectures from the chapters, into _build/slides
#   make serve      serve the site on this machine          (PORT=8000)
#
# For developers
#   make check      what to run before each commit: make lint, and all tests that are fast
#   make test       run the tests and the doctests          (ARGS='-k protocol' for some;
#                   KERNEL=Haswell for linear algebra as on other processors;
#                   VENV=.venv-3.13 PYTHON=python3.13 for another Python)
#   make lint       check format, types, and the pairs of text and notebook
#   make sync       bring each chapter's text and notebook into step, the newer one leading
#   make measure    words, code, tables and figures of each chapter, and where its first figure is
#   make test-site  open every page of the site in a Chromium and check it (THOROUGH=1, weekly:
#                   also on a phone, in the dark theme, and for accessibility)
#   make test-matrix  before a release: all tests, with coverage, the newest Python, the lowest
#                   versions, kernels, bundled ranks, peers, graphs; hours
#   make test-lowest  some tests on the lowest versions that the library takes, on Python 3.11
#   make test-kernel  the numerical tests on another kernel (KERNEL=Haswell); weekly
#   make test-shown the digits that claims show on another kernel, compared with those in
#                   _build/shown (remove it after a change)
#   make test-peers the readers on results of the libraries themselves, on Python 3.11 and Linux
#   make test-graphs  those of PyKEEN and OGB, whose PyTorch is newer than RecBole's
#   make release-check  build what is published into _build/dist, and check it
#   make benchmarks time and memory, beside the plain formulas: see benchmarks/README.md
#   make clean      remove what was built, .venv excepted
#
# To recompute what is bundled
#   make ranks      the ranks that come with the package    (ARGS=--check to compare only)
#   make benchmark-ranks  the ranks of the benchmark, hours on two cores; resumes
#                   (ARGS='--data NAME ...' for some data sets;
#                   ARGS='--data FOLDER --output ranks' for data sets of your own;
#                   ARGS='--untuned --output untuned' for the first setting of each grid;
#                   ARGS=--check to compare some)
#   make neural-ranks  train SASRec, GRU4Rec and Mult-VAE on 21 sets of the benchmark and rank;
#                   resumes; some hours of processor time (ARGS='--models SASRec' for a quarter)
#   make graph-ranks  train the models of links in graphs anew and rank
#   make evidence   what each correction makes of the benchmark's ranks; resumes; then the learned
#                   prior and the track record of the library, and how often sampling reverses an
#                   order
#   make corpora    rankings of two collections of documents, and scores on NanoBEIR
#                   (ARGS=--check to compare the rankings only)
#   make figure     the README's figure
#   make requirements  the pins of all packages (needs uv)

PYTHON ?= python3
VENV = .venv
PORT ?= 8000
RUN := $(VENV)/bin/python
MAKEFLAGS += --no-print-directory
# Compiled tests are collected in half the time.
unexport PYTHONDONTWRITEBYTECODE
# What uses all cores does so in processes of its own.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: book slides measure figure check test test-matrix test-kernel test-shown test-lowest test-peers test-graphs chapter lab serve lint sync ranks benchmark-ranks neural-ranks graph-ranks evidence corpora test-site benchmarks requirements release-check clean

book: $(VENV)/book.installed
	@$(RUN) book/build.py site

slides: book
	@$(RUN) book/slides.py

measure: $(VENV)/book.installed
	@$(RUN) book/measure.py

figure: book
	@$(RUN) book/figure.py

# Tests go to whoever is free, in the order of the files: what they share is computed about once.
PYTEST = $(RUN) -m pytest -n logical --maxprocesses=8 --dist=worksteal
OTHERWISE = $(if $(KERNEL),OPENBLAS_CORETYPE=$(KERNEL) )

check: lint
	$(PYTEST) -q -m 'not once' $(ARGS)

test: $(VENV)/test.installed
	$(OTHERWISE)$(PYTEST) -m 'not matrix' $(ARGS)

# What is computed on another kernel must also be shown with the same digits.
SHOWN = _build/shown
SHOW = tests/sampled_book/claims
test-kernel test-shown: KERNEL ?= Nehalem
test-kernel: test-shown
	$(OTHERWISE)$(PYTEST) -q -m '(numerical and not once) or pages' $(ARGS)

test-shown: $(VENV)/test.installed
	@rm -rf $(SHOWN)-$(KERNEL)
	@[ -d $(SHOWN) ] || $(PYTEST) -q $(SHOW) -m pages --shown=$(SHOWN)
	$(OTHERWISE)$(PYTEST) -q $(SHOW) -m pages --shown=$(SHOWN)-$(KERNEL)
	diff -r $(SHOWN) $(SHOWN)-$(KERNEL)

# Before a release, and where machines are free: each line may run on a machine of its own.
test-matrix:
	$(MAKE) test ARGS='-m "" --hypothesis-profile=many --cov'
	$(MAKE) test VENV=.venv-3.13 PYTHON=python3.13
	$(MAKE) test-lowest
	$(MAKE) test-kernel KERNEL=Nehalem
	$(MAKE) test-kernel KERNEL=Haswell
	$(MAKE) ranks ARGS=--check
	$(MAKE) benchmark-ranks ARGS=--check
	$(MAKE) test-peers
	$(MAKE) test-graphs

# Where versions matter, without what conftest.py says to run once.
LOWEST := $(patsubst %,tests/sampled_metrics/%.py,log/test_logs readers/test_scores readers/test_trec \
	readers/test_rectools ranking/test_files designs/test_estimates designs/test_compare \
	ranking/test_exact test_metrics test_estimators bounds/test_identification test_auditing \
	numerics/test_betting) src/sampled_metrics
test-lowest: .venv-lowest/installed
	.venv-lowest/bin/python -m pytest $(LOWEST) -m 'not once' $(ARGS)

# In an environment of its own: RecBole needs older libraries, among them several gigabytes.
test-peers: .venv-peers/installed
	.venv-peers/bin/python -m pytest tests/peers $(ARGS)

# PyTorch for these libraries is gigabytes, and newer than the one that RecBole takes.
test-graphs: .venv-graphs/installed
	.venv-graphs/bin/python -m pytest tests/peers $(ARGS)

chapter: $(VENV)/book.installed
	@$(RUN) book/build.py chapter $(CHAPTER) $(ARGS)

lab: $(VENV)/lab.installed
	$(RUN) -m jupyterlab --LabApp.default_url=/lab/tree/book/notebooks/index.ipynb $(ARGS)

serve: book
	@echo "The book is at http://127.0.0.1:$(PORT)/ (Ctrl-C stops it)"
	@$(RUN) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

lint: $(VENV)/test.installed
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) book/pairs.py check

sync: $(VENV)/book.installed
	@$(RUN) book/pairs.py sync

release-check: .venv-release/installed
	@rm -rf _build/dist
	.venv-release/bin/python -m build --no-isolation -o _build/dist .
	.venv-release/bin/twine check --strict _build/dist/*
	.venv-release/bin/check-wheel-contents _build/dist/*.whl
	.venv-release/bin/repo-review .

# In an environment of its own: LensKit takes several gigabytes and an older pandas.
ranks: .venv-study/installed
	.venv-study/bin/python -m sampled_book.data.recommenders $(ARGS)
	.venv-study/bin/python -m sampled_book.data.study $(ARGS)

benchmark-ranks: .venv-study/installed
	OPENBLAS_NUM_THREADS=2 .venv-study/bin/python -m sampled_book.data.benchmark $(ARGS)

# On one thread, so that the order of sums does not depend on the machine's cores.
neural-ranks: .venv-peers/installed
	OMP_NUM_THREADS=1 .venv-peers/bin/python -m sampled_book.data.neural $(ARGS)

graph-ranks: .venv-graphs/installed
	.venv-graphs/bin/python -m sampled_book.experiments.graphs $(ARGS)

evidence: $(VENV)/book.installed
	$(RUN) -m sampled_book.experiments.evidence $(ARGS)
	$(if $(ARGS),,$(RUN) -m sampled_book.experiments.learned_prior)
	$(if $(ARGS),,$(RUN) -m sampled_book.experiments.left_out)
	$(if $(ARGS),,$(RUN) -m sampled_book.experiments.all_estimators)
	$(if $(ARGS),,$(RUN) -m sampled_book.experiments.track_record)
	$(if $(ARGS),,$(RUN) -m sampled_book.experiments.judged_kinds)
	$(if $(ARGS),,$(RUN) -m sampled_book.experiments.reversals)
	$(if $(ARGS),,$(RUN) -m sampled_book.experiments.stretch)

corpora: $(VENV)/book.installed
	$(RUN) -m sampled_book.data.retrieval $(ARGS)
	$(if $(ARGS),,$(RUN) -m sampled_book.experiments.corpora)

test-site: $(VENV)/site.installed book
	$(RUN) -m pytest tests/project/site -n logical --maxprocesses=4 $(ARGS)

# On one core: on several, the times depend on what else the machine does.
benchmarks: $(VENV)/test.installed
	OPENBLAS_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1 $(RUN) -m pytest benchmarks \
		-o python_files='bench_*.py' -q --benchmark-columns=min,median,rounds \
		--benchmark-sort=name $(ARGS)

clean:
	rm -rf _build

# Each file of pins but project.txt has an environment of its own.
.venv-lowest/installed .venv-peers/installed .venv-graphs/installed: PYTHON := python3.11
.venv-%/installed: requirements/%.txt pyproject.toml
	@$(PYTHON) .ci/install.py .venv-$* $<
	@touch $@

# Pin anew every package and its hashes; needs uv on the PATH.
requirements:
	$(PYTHON) .ci/pin.py

# Each section of these pins adds to those before it.
$(VENV)/%.installed: requirements/project.txt pyproject.toml
	@$(PYTHON) .ci/install.py $(VENV) $< $*
	@for section in book test site lab; do \
		touch $(VENV)/$$section.installed; [ $$section != $* ] || break; done
