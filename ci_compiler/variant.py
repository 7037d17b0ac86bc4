"""Variants by name: where the recipe of a variant is."""

from __future__ import annotations

RECIPES = ".flox/pkgs"
"""The folder of the recipes, from the root of the repository (Flox' own convention)."""
