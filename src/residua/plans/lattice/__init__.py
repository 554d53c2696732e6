"""The lattice form: precisions on sets of attributes, each attribute measured by its own strategy."""
