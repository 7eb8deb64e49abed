"""The report's numbers, as DuckDB's SQL: one implementation, whoever read the tables.

Owns what the numbers mean. `views` makes views of the rows of a range; the others are queries over these, and give
rows. Must not know where the tables came from, nor what a page looks like. Begin with `views.py`.
"""
