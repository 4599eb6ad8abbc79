"""The command `rmqlab`, as `python -m rmqlab`."""

from rmqlab.cluster.program import main

if __name__ == "__main__":
    main()
