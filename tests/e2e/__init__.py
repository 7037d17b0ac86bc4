"""Runs the unchanged compiled workflows with act, real git, real Nix and a stack that builds in a moment.

`world.py` creates the environment of a run, `act.py` reads its results. `stack/` is what is built, `actions/` replaces
GitHub's actions, `bin/` is on the PATH of the machines.

act differs from GitHub in ways that limit what these tests prove. One label that it knows is enough for a job, so the
truth tables (`tests/workflows`) prove which machine a job asks for. Environments, permissions, concurrency and timeouts
have no effect. It does not know the permission `artifact-metadata`, so nothing is attested here. And a
called workflow that fails ends its run, so the verdict after it runs separately (`World.verdict`).
"""
