"""Dense plans: any linear queries on the cells that they tell apart, measured through one integer matrix."""
