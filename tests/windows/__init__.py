"""CPython for Windows under Wine."""
