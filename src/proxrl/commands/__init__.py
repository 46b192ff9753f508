"""The commands of the command line, one file per group: parsing and printing only."""
