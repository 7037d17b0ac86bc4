"""Imports and checks the package under test, in the interpreter that it was built for.

`probing` starts the script with `-I` in a clean environment. The script imports only the standard library, the package
and what the package imports. It reads the expectation from standard input as JSON, and writes a line of JSON when a
check begins and ends, so that the reader knows what was running at a crash. The package's output goes to standard
error.

`benchmark` is a second script, which `runner.jobs.benchmark` starts in the same way: it measures the package instead.
"""
