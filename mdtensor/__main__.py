"""Entry point of `python -m mdtensor`, the `mdtensor` command."""

from mdtensor.api.cli.main import main

if __name__ == "__main__":
    main()
