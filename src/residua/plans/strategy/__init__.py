"""What Gaussian and Laplace plans share that measure one integer matrix on merged cells."""
