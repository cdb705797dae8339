"""Open-set semi-supervised learning on pictures."""
