"""Seats that follow what a database can do."""
