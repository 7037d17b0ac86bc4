"""Ready publishers of files: an index of wheels, a release on GitHub, an index that trusts the workflow."""
