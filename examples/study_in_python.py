# %% [markdown]
# # A study in Python
#
# A study file and a dictionary of the same shape are the same thing. This one asks the vocabulary paper's question,
# small: do fewer words leak less? Finished parts are kept in `out`, so that a stopped study goes on.

# %%
import pathveil

corpus = pathveil.synth(600, registries=3, seed=3, sites=8)
settings = {
    "name": "Do fewer words leak less?",
    "vocabulary": {
        "strategies": ["B", "I2", "MI200"],
        "sizes": [200],
        "shadows": 2,
        "counts": [1],
        "training": {"filters": 20, "dim": 50, "epochs": 4},
    },
}
result = pathveil.study(settings, corpus=corpus)
print(result)

# %% [markdown]
# Table 1 of the paper (what attacks find) and Table 2 (F1) as frames:

# %%
print(result.to_frame().head())
