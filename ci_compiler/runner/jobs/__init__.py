"""The stages of a variant, as the compiled `variant.yml` calls them: build, fetch, smoke, publish.

    build  ->  manifest.json  ->  fetch  ->  smoke        ->  publish
    store      the later           store     result.json      FloxHub, or
    path       stages' input       path      junit.xml        a binary cache

A stage is a function that decides nothing which the spec has decided: `variants` looks that up, `manifest` carries it
from machine to machine. Three modules run programs: `store` runs Nix, `backend` what builds and publishes (Flox or
Nix), `checkout` git. A stage that fails raises `StageError`; wrong input is an InputError, as everywhere.
"""
