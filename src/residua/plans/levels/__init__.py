"""Attributes in nested levels, and the blocks that sets of levels make: what blockwise plans and their solver share."""
