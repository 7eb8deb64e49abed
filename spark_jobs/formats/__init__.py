"""Tables as Parquet files, Delta Lake or Iceberg tables: how the jobs write them, and read what is there.

Owns which format is which; knows nothing of what the tables hold. Begin with `api.py`.
"""
