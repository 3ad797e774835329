"""What the tests leave alone: pages and copies of examples that the documentation's build makes."""

collect_ignore = ["_build", "gallery"]
