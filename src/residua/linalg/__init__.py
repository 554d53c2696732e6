"""Structured linear algebra that knows neither privacy nor tables."""
