"""Outlier scores that any trained network gives without training more, to compare a method with."""
