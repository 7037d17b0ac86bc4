"""The compiled workflows, run: by act, unchanged, with real git, real Nix and a stack that builds in a moment.

`world.py` makes what they run in, `act.py` reads what came of it. `stack/` is what is built, `actions/` stand for
GitHub's actions, `bin/` is what the machines have on PATH.

act differs from GitHub in ways that bound what this proves. One label that it knows is enough for a job, so that which
machine a job asks for is proved by the truth tables (`tests/workflows`). Environments, permissions, concurrency and
timeouts have no effect. It does not know the permission `artifact-metadata`, so that nothing is attested here. And a
called workflow that fails ends its run, so that the verdict behind it is run by itself (`World.verdict`).
"""
