"""``python -m nirbridge`` is the ``nirbridge`` command."""

from nirbridge.cli.main import main  # nirbridge.cli makes Ctrl-C quiet before the rest is imported

if __name__ == "__main__":
    main()
