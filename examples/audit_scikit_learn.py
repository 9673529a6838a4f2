# %% [markdown]
# # Audit a scikit-learn model
#
# Anything with `fit` and `predict_proba` can be audited: half of the cases become the members, the model is fitted on
# them, shadow models are fitted on random halves, and every attack tries to tell members from others.

# %%
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import pathveil

reports = pathveil.synth(500, registries=2, seed=2, sites=8).to_frame()
texts, sites, cases = (reports[name].to_list() for name in ("text", "site", "case_id"))

# %% [markdown]
# With C = 1000 the regression hardly shrinks its weights, and so remembers its training reports.

# %%
pipeline = make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(C=1000, max_iter=200))

# %% [markdown]
# An attack of your own stands beside ours in evidence, page and verdict: a function that gives each record a score,
# higher where it looks like a member. Here: how much surer the model is of the right code than shadows that never saw
# the record.


# %%
def surer_than_strangers(about):
    strangers = ~about.inside  # (shadows, records)
    usual = (strangers * about.shadow_log_probability).sum(axis=0) / np.maximum(strangers.sum(axis=0), 1)
    return about.log_probability - usual


audit = pathveil.audit(
    pipeline, texts, sites, cases=cases, shadows=6, attacks={"surer than strangers": surer_than_strangers}
)
print(audit)

# %% [markdown]
# The strongest attacks, all records together:

# %%
strongest = audit.to_frame().filter(bucket="all", unit="report").sort("auc", descending=True)
print(strongest.select("attack", "shadows", "auc", "auc_low", "auc_high").head(8))
