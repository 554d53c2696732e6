"""The formats in which statistical offices publish tables."""
