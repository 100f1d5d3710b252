"""python -m rtopk.gnn: train MaxK graph networks, and study them."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
