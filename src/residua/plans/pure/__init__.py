"""Plans with Laplace noise, for pure differential privacy: any queries on few cells, and marginals at scale."""
