"""Files of many formats as batches of rows: the parts that `sojourn.sources` is made of."""
