"""What happened, as Arrow tables and Parquet files."""
