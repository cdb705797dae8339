"""Published tables filled in again: the cells as data, one runner, and what is made of its results.

Importing it imports no network: `ossl --help` does so.
"""
