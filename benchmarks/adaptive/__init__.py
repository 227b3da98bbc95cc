"""Limits that adapt, judged in virtual time against the best static limit and against those of others."""
