"""``python -m nirbridge`` is the ``nirbridge`` command."""

from nirbridge.cli.main import main

if __name__ == "__main__":
    main()
