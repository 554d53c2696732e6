"""The matrix form: one integer matrix on the cells that queries tell apart."""
