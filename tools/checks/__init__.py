"""What tools/check checks, one module for each kind of finding."""
