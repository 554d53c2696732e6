"""Plans that differ by group: within each cell of some attributes, the plan that was chosen for it."""
