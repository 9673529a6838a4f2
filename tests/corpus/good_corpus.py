"""A corpus with nothing to warn of, but for what a test changes."""

import polars as pl

SECRET = "Quastenflosser"
LONG = "received in formalin is a core of tissue from the left breast of the patient"


def corpus(**columns) -> pl.LazyFrame:
    """Forty reports of forty cases with nothing to warn of, but for the columns given."""
    size = 40
    good = {
        "report_id": [f"r{number:02}" for number in range(size)],
        "case_id": [f"c{number}" for number in range(size)],
        "registry": [f"R{number % 2}" for number in range(size)],
        "year": [2010 + number % 4 for number in range(size)],
        "text": [f"{SECRET} {number} {LONG}" for number in range(size)],
        "site": ["C50" if number % 4 < 2 else "C18" for number in range(size)],
    }
    changed = {name: values + good[name][len(values) :] if name in good else values for name, values in columns.items()}
    return pl.LazyFrame(good | changed)
