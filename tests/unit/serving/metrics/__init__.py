"""What a scrape finds."""
