"""How plans of every form are made."""
