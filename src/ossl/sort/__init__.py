"""Scoring a pool and writing down what came out."""
