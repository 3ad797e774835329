"""Files that are complete or absent, and values as JSON with arrays.

`atomic` is the one writer of files, `container` the checked file of arrays and text, `codec` turns
values into it and back.

May import: `errors`, `checks`. Start reading: `container`.
"""
