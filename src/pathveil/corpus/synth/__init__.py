"""A generator of pathology corpora: registries, cases and reports that no patient ever had.

So that anyone can run everything without patient data. Labels agree with each other (ICD-O-3), each registry has its
own house style and mix of cases, and personal information is planted in the text, its exact spans kept apart as the
truth against which exposure is measured. ``docs/synthetic-corpus.md`` says what is assumed.

>>> settings = SynthSettings(reports=40, seed=1)
>>> reports, truth = next(iter(synthesise(settings)))
>>> reports.height, reports.columns[:5]
(40, ['report_id', 'case_id', 'registry', 'date', 'kind'])
>>> row = truth.row(0, named=True)
>>> text = reports.filter(report_id=row["report_id"])["text"][0]
>>> text[row["start"]:row["end"]] == row["text"]
True
"""

from pathveil.corpus.synth.people import KINDS
from pathveil.corpus.synth.writer import SynthResult, SynthSettings, configure, synthesise, write_corpus

__all__ = ["KINDS", "SynthResult", "SynthSettings", "configure", "synthesise", "write_corpus"]
