"""An app behind a reverse proxy that signs people in, and is believed where others are not: see README.md."""
