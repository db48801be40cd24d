"""The soak's parts: its guests (guest.py), what happens to them (world.py), and what is left of it (gauge.py)."""
