"""The checks of tools/check, one module for each kind of finding."""
