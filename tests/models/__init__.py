"""Tests of `ossl.models`."""
