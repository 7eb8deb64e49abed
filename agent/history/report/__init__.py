"""The report over months: which groups and teams cost the most, why and when, as one page and as tables."""
