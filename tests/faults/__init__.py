"""Faults while files are written: a kill at every step, a full disk, a read-only folder, two compiles at once."""
