"""The routes, over records that were replayed."""
