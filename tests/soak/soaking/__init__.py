"""The soak's parts: its guests (guest.py), what happens to them (world.py), and the check of what they leave
behind (gauge.py)."""
