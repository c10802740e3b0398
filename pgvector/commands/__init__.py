"""The verbs of the command line, a module for each group of them. Loaded with nothing but the standard library."""
