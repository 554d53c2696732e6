"""Plans whose blocks each have a strategy of their own: joint queries of a few attributes, and nested levels."""
