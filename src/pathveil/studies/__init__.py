"""Studies: the papers' experiments, and our own, as runs that can be stopped at any moment and go on.

A study file (``study_file``) names a corpus and studies (``vocabulary``, ``distribution``, ``combined``, ``defences``).
Each lists its pieces of work (``scheduler``), whose results are kept whole under names made from their inputs
(``store``); what they say together is judged (``findings``, ``statistics``) and put in words (``recommendation``,
``answer``) in one typed result (``result``).
"""
