"""The story: words, lines and paragraphs."""
