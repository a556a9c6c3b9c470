"""Anything to a `Graph`: files, tables, other libraries, published data sets, code, synthetic graphs."""
