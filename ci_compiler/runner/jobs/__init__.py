"""The stages of a variant, as the compiled `variant.yml` calls them: build, fetch, smoke, publish.

    build  ->  manifest.json      ->  fetch      ->  smoke        ->  publish
    outputs    input of the later     outputs,       result.json      the backend's
               stages                 here           junit.xml        catalog or cache

The spec decides everything: `targets` looks it up, and `manifest` carries it from machine to machine. The programs of
the backend run behind the protocol of `ci_compiler.backends`. A stage that fails raises `StageError`; wrong input is
an InputError, as everywhere.
"""
