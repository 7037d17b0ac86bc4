"""Mutation testing: whether the tests notice when the decisions of the compiler are made wrongly.

`python -m tests.mutation` changes one thing at a time in a copy of the tree and runs the fast tests of that module;
a change that no test notices survives, and is printed to be read.
"""
