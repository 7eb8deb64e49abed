"""What was found → one HTML document. Knows no Spark."""
