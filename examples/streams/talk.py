"""A client that says a word and prints the answer: ``python -m examples.streams.talk ws://127.0.0.1:8000/talk``."""

import sys

from websockets.sync.client import connect

with connect(sys.argv[1], proxy=None) as socket:
    socket.send("hello")
    print(socket.recv())
