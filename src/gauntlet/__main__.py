"""`python -m gauntlet` is `gauntlet`."""

from gauntlet.cli import main

if __name__ == "__main__":
    main()
