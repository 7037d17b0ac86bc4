"""How the tool itself is packaged."""
