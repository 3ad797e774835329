"""The estimators in scikit-learn's tools: splits, searches, pipelines, metadata routing."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sojourn as sj

RNG = np.random.default_rng(0)
RNG_VALUES = np.random.default_rng(1).normal(size=(90, 2))
# One symbol occurs in one sequence only: folds without it must know it all the same.
LISTS = [["a"] * int(RNG.integers(1, 5)) + ["b"] * int(RNG.integers(1, 5)) for _ in range(30)]
LISTS[17].append("rare")
SEQS = sj.Sequences.from_lists(LISTS, ids=[f"case {i}" for i in range(30)])


def test_splits_keep_ids_vocabulary_and_times():
    train, test = train_test_split(SEQS, random_state=0)
    assert isinstance(train, sj.Sequences)
    assert sorted([*train.ids, *test.ids]) == sorted(SEQS.ids)
    assert train.n_symbols == test.n_symbols == 3
    assert all(test[name] == SEQS[name] for name in test.ids.tolist())
    folds = list(KFold(3).split(SEQS))
    assert [len(held_out) for _, held_out in folds] == [10, 10, 10]


@pytest.mark.parametrize(
    "model",
    [sj.HSMM(1, 4, max_iter=5, random_state=0), sj.SpectralHSMM(1, 4)],
    ids=["em", "spectral"],
)
def test_a_search_on_sequences_has_no_nan(model):
    search = GridSearchCV(model, {"n_states": [1, 2]}, cv=3).fit(SEQS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.vocabulary_.tolist() == ["a", "b", "rare"]
    assert np.isfinite(cross_val_score(model, SEQS, cv=3)).all()


def test_a_search_chooses_what_predicts_better():
    search = GridSearchCV(sj.HSMM(1, 4, max_iter=20, random_state=0), {"n_states": [1, 2]}, cv=3)
    assert search.fit(SEQS).best_params_ == {"n_states": 2}


@pytest.mark.parametrize("X", [np.zeros((6, 1), int), [0, 1, 0, 1, 0, 1]], ids=["column", "list"])
@pytest.mark.parametrize("model", [sj.HSMM(1, 2), sj.SpectralHSMM(1, 2)], ids=["em", "spectral"])
def test_lengths_by_position_say_what_to_write(model, X):
    with pytest.raises(sj.SojournError, match="lengths="):
        model.fit(X, [3, 3])


def test_lengths_that_stand_for_labels_say_what_to_write():
    with pytest.raises(sj.SojournError, match=r"labels y cannot be read.* lengths="):
        sj.HSMM(1, 2).fit([[0, 1, 0], [1, 1, 0]], [3, 3])
    with pytest.raises(sj.SojournError, match=r"labels y cannot be read.* lengths="):
        sj.HSMM(1, 2).fit([[0, 1, 0], [1, 1, 0]], np.array([3, 3]))


def test_a_pipeline_takes_lengths_by_metadata_routing():
    numbers = np.concatenate([RNG.normal(0, 1, 60), RNG.normal(9, 1, 60)])[:, None]
    with sklearn.config_context(enable_metadata_routing=True):
        model = sj.HSMM(2, 60, max_iter=5, random_state=0)
        model.set_fit_request(lengths=True).set_predict_request(lengths=True)
        scale = StandardScaler().set_output(transform="pandas")
        pipe = make_pipeline(scale, sj.Discretizer(4), model).fit(numbers, lengths=[60, 60])
        states = pipe.predict(numbers, lengths=[60, 60])
    assert [len(set(own)) for own in np.split(np.concatenate(states), 2)] == [1, 1]


@pytest.mark.parametrize("kind", ["none", "integer", "RandomState", "Generator"])
def test_random_state_takes_every_form_and_a_seed_repeats_the_fit(kind):
    def state():
        return {
            "none": None,
            "integer": np.int64(3),
            "RandomState": np.random.RandomState(3),
            "Generator": np.random.default_rng(3),
        }[kind]

    def fits():
        yield sj.HSMM(2, 2, max_iter=2, random_state=state()).fit(SEQS).params_.emission
        yield sj.SpectralHSMM(random_state=state()).fit(SEQS).score_samples(SEQS)
        yield sj.Discretizer(3, "kmeans", random_state=state()).fit(RNG_VALUES).centres_

    assert all(np.array_equal(a, b) for a, b in zip(fits(), fits(), strict=True))


@pytest.mark.parametrize("wrong", [-1, "seed", 0.5])
def test_a_random_state_that_is_none_is_refused(wrong):
    with pytest.raises(sj.SojournError, match="random_state is"):
        sj.HSMM(2, 2, random_state=wrong).fit(SEQS)


def test_a_search_on_plain_lists_works_or_says_how_folds_share_a_vocabulary():
    lists = [row[:-1] if row[-1] == "rare" else row for row in LISTS]
    assert np.isfinite(cross_val_score(sj.ContextTree(), lists, cv=3)).all()
    with pytest.raises(sj.SojournError, match=r"'rare' .* one Sequences of all"):
        cross_val_score(sj.ContextTree(), LISTS, cv=3, error_score="raise")


def test_states_become_a_table_with_named_columns():
    model = sj.SpectralHSMM().fit(SEQS).set_output(transform="pandas")
    table = model.transform(SEQS)
    assert table.columns.tolist() == model.get_feature_names_out().tolist()
    assert table.shape == (len(SEQS), model.rank_)
    assert table.columns[0] == "state0"
