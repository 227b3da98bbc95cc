"""``python -m apf_middleware`` is the command ``apf``."""

from apf_middleware.cli import main

if __name__ == "__main__":
    main()
