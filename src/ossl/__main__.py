"""`python -m ossl`, which is how torchrun and accelerate start it."""

from ossl.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
