from __future__ import annotations

from tests.generate.spark_tables_page import PAGE, page


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.generate.spark_tables_page writes it anew"
