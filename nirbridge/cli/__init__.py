"""The ``nirbridge`` command, one module for each subcommand."""
