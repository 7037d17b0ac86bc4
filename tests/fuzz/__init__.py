"""Coverage-guided fuzzing of whatever reads text from outside: `python -m tests.fuzz TARGET --seconds N`.

`targets` holds what is fuzzed, `corpus/TARGET/` the inputs that it starts from, `test_corpus` runs each of those as an
example in the ordinary tests. An input that broke something stays in the corpus.
"""
