"""`python -m mdtensor` is the program `mdtensor`."""

from mdtensor.api.cli.main import main

if __name__ == "__main__":
    main()
