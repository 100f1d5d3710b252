"""python -m rtopk.gnn: train MaxK graph networks."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
