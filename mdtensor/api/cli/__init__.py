"""The command line: `mdtensor` and its commands, such as `tune` and `explain`."""
