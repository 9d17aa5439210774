"""`python -m horizon_app`: the command line."""

from horizon_app.cli.main import main

if __name__ == "__main__":
    main()
