"""One declaration becomes a fleet's workflows, recipes and documents: `ci_compiler.pipeline` is the way through."""

__version__ = "0.1.0"
