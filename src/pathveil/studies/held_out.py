"""Which cases a study keeps for testing: a share of every registry's, drawn anew for each seed, or the newest ones.

By date as in the distribution paper (section II-A) and in ``corpus split``: a case with a report on or after a day is
tested on, as a model meets it in production, and a case without any date is trained on. The cases are then the same
for every seed.

>>> HeldOutSettings(test_from=2015).parts, HeldOutSettings().parts
({'test_from': '2015'}, {'test_share': 0.2})
"""

from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from pathveil.corpus.split import first_day
from pathveil.errors import UsageError
from pathveil.federation.run import unseen_from, unseen_rows
from pathveil.settings import Settings
from pathveil.vocabulary.encoded import EncodedCorpus


class HeldOutSettings(Settings):
    """How a study's test cases are chosen: what the settings of every study begin with."""

    test_share: float = Field(0.2, gt=0, lt=1)  # of every registry's cases
    test_from: str | None = None  # instead: every registry's cases with a report on or after this day (or year)

    @field_validator("test_from", mode="before")
    @classmethod
    def a_day(cls, day: Any) -> str | None:
        if day is None:
            return None
        try:
            first_day(str(day), option="")
        except UsageError as error:
            raise ValueError(str(error).strip()) from None
        return str(day)  # TOML has dates and numbers of its own

    @model_validator(mode="after")
    def one_way(self) -> "HeldOutSettings":
        if self.test_from is not None and "test_share" in self.model_fields_set:
            raise ValueError("'test_share' and 'test_from' exclude each other; cases are tested by share or by date")
        return self

    @property
    def parts(self) -> dict[str, Any]:
        """What of it determines a result."""
        return {"test_share": self.test_share} if self.test_from is None else {"test_from": self.test_from}

    def unseen(self, corpus: EncodedCorpus, *, seed: int) -> dict[int, np.ndarray]:
        """Each registry's test documents, by case."""
        if self.test_from is None:
            return unseen_rows(corpus, share=self.test_share, seed=seed)
        return unseen_from(corpus, self.test_from)
