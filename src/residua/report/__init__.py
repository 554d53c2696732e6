"""Reports: one self-contained page for people, what notebooks show, and plans as text."""
