"""The table of coverage in `docs/uncertainty.md` is what its benchmark wrote, and holds what is promised."""

from benchmarks.coverage_page import PAGE, PROMISED, read, verdict, written


def test_the_page_is_written_from_the_file_of_all_rows():
    assert written(read()) in PAGE.read_text(encoding="utf-8")


def test_no_figure_is_below_what_is_promised_by_more_than_chance():
    assert "is none." in verdict(read())


def test_small_numbers_hold_as_often_as_chance_allows_one_by_one_and_together():
    row = {**read()[0], "size": "1 to 4", "after": "", "cells": "1", "error": "0.1"}
    one = [{**row, "held": str(PROMISED + shift)} for shift in (-0.2, 0.1, 0.1)]
    assert "3 figures, the lowest 2.0 standard errors below 95 %" in verdict(one)
    assert "has is 95.0 ± 0.06" in verdict(one)


def test_a_figure_that_is_would_be_named():
    low = {**read()[0], "held": str(PROMISED - 2), "error": "0.2", "after": "planted"}
    assert "are 1: " in verdict([*read(), low])
    assert "planted" in verdict([*read(), low])
