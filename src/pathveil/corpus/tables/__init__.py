"""Tables of every kind, opened: CSV, Excel, JSON, Parquet, databases, texts in files of their own, NAACCR XML."""
