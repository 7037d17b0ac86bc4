"""Deployment files out of the spec's pools, one module a target; each is a pure function from the spec to texts."""
