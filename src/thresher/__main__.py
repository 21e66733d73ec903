"""`python -m thresher`: the same as the command `thresher`."""

from thresher.cli.entry import main

if __name__ == "__main__":
    main()
