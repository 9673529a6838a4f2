"""Registries: each has a style, and none is given away by it for certain."""


def test_a_probe_tells_registries_apart_but_not_always(made):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    reports = made[0]
    even = reports["case_id"].str.slice(-1).is_in(list("02468"))
    train, test = reports.filter(even), reports.filter(~even)
    words = TfidfVectorizer(min_df=3, max_features=1_500)
    probe = LogisticRegression(max_iter=200, C=1).fit(words.fit_transform(train["text"]), train["registry"].to_list())
    right = probe.score(words.transform(test["text"]), test["registry"].to_list())
    assert 2 * test["registry"].value_counts()["count"].max() / test.height < right < 0.97, right
