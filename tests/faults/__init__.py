"""Faults while files are written: killed at every step, a full disk, a folder that may not be written, two at once."""
