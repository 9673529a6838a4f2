# %% [markdown]
# # Train a model and code reports
#
# Made-up reports of three registries stand in for your own: put `pathveil.read("reports.parquet")` in the place of
# `pathveil.synth(…)`. A corpus is a table with `report_id`, `case_id`, `registry`, `text` and a column a task.

# %%
import pathveil

corpus = pathveil.synth(900, registries=3, seed=1)
print(corpus)

# %% [markdown]
# Nobody may be on both sides: the split goes by case. The words come from the training part alone; here those that at
# least two registries and three patients have.

# %%
parts = corpus.split(validation=0, seed=1)
words = pathveil.select_words(parts.train, "registries >= 2 and cases >= 3")
model = pathveil.train(parts.train, vocabulary=words, preset="small", epochs=8)
print(model)

# %%
print(pathveil.evaluate(model, parts.test))

# %% [markdown]
# A code comes with its probability, and with `abstained` where a person should decide.

# %%
text = "FINAL DIAGNOSIS: right breast, core biopsy: invasive ductal carcinoma, grade 2."
print(model.predict([text]).to_frame())

# %% [markdown]
# The words that spoke for a code:

# %%
print(model.explain(text))
