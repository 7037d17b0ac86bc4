"""Deployment files for the spec's pools: a folder of templates for each target, rendered by `kinds`."""
