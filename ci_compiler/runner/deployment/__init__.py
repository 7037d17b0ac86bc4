"""Deployment files for the spec's pools, one module per target; each is a pure function from the spec to texts."""
