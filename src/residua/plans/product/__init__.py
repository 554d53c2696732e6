"""Product plans: ranges, prefixes, hierarchies and any rows of each attribute, crossed, over many attributes."""
