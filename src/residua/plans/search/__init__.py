"""Where good strategies for Laplace noise are looked for."""
