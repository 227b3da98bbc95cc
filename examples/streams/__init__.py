"""Server-Sent Events and WebSockets: they give their seats back, and there are no more than may be."""
