"""One declaration becomes a fleet's workflows, recipes and documents: see `plan.pipeline`."""

__version__ = "0.3.0"
