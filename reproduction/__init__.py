"""The paper's experiments: what they measure, the numbers, the figures and a page about them."""
