"""Coverage-guided fuzzing of all code that reads text from outside: `python -m tests.fuzz TARGET --seconds N`.

`targets` has the fuzzed functions, `corpus/TARGET/` the inputs that fuzzing starts from. `test_corpus` runs each input
as an example in the ordinary tests. An input that broke something remains in the corpus.
"""
