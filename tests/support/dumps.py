"""Dumps as the admin and the command write them."""


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
