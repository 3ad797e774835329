"""Saved models: the same bits again, the old file or the new one, and nothing else accepted."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from damage import content_of, fuzz, fuzz_signed, head_of, kill_saves
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as serialise

import sojourn as sj
from sojourn.detect import combination
from sojourn.estimators.hsmm import HSMM
from sojourn.persist import saving
from sojourn.persist.validate import check_model
from sojourn.storage import container
from sojourn.storage.codec import decode, encode

GOLDEN = Path(__file__).parents[1] / "golden"
DATA = sj.Params.random(3, 4, 5, rng=0).sample(300, 40, rng=1)
HELD = sj.Params.random(3, 4, 5, rng=0).sample(20, 30, rng=2)
ALGORITHMS = ("adjacent", "pooled", "per_step")


def spectral(**options) -> sj.SpectralHSMM:
    return sj.SpectralHSMM(2, 2, **options).fit(DATA)


def hsmm(vocabulary=None, seed=3, **options) -> HSMM:
    """A model as EM would leave it, without the time that takes."""
    n_o = 5 if vocabulary is None else len(vocabulary)
    model = HSMM(3, 4, **options)
    model.params_ = sj.Params.random(3, 4, n_o, rng=seed)
    model.initial_ = None
    model.history_, model.n_passes_, model.converged_ = [-3.5, -3.25, -np.inf], 3.5, True
    model.vocabulary_ = np.arange(5) if vocabulary is None else np.array(vocabulary)
    model.n_symbols_ = n_o
    return model


def again(model, tmp_path, **options):
    path = tmp_path / "model.sojourn"
    saving.save(model, path, **options)
    return sj.load(path)


def same_scores(a, b, X) -> bool:
    steps = zip(a.surprise(X), b.surprise(X), strict=True)
    return (
        np.array_equal(a.score_samples(X), b.score_samples(X))
        and all(np.array_equal(x, y) for x, y in steps)
        and np.array_equal(a.predict_next(X, horizon=2), b.predict_next(X, horizon=2))
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_spectral_model_scores_to_the_same_bits(algorithm, tmp_path):
    model = spectral(algorithm=algorithm)
    loaded = again(model, tmp_path)
    assert same_scores(model, loaded, HELD)
    assert (loaded.rank_, loaded.window_, loaded.epsilon_) == (
        model.rank_,
        model.window_,
        model.epsilon_,
    )
    assert loaded.choice_.trials == model.choice_.trials
    assert np.array_equal(loaded.singular_values_, model.singular_values_)
    assert loaded.operators_.tensors is None
    assert loaded.get_params() == model.get_params()


def test_hsmm_scores_to_the_same_bits(tmp_path):
    model = hsmm(pseudocount=0.5, durations=["free", "poisson", "geometric"])
    loaded = again(model, tmp_path)
    assert same_scores(model, loaded, HELD)
    assert loaded.history_ == model.history_
    assert (loaded.n_passes_, loaded.converged_) == (3.5, True)
    assert loaded.get_params() == model.get_params()
    assert all(map(np.array_equal, loaded.predict(HELD), model.predict(HELD)))


def test_the_distribution_of_the_first_stay_is_kept(tmp_path):
    model = hsmm(left_censored=True)
    model.initial_ = np.full((3, 4), 1 / 12)
    loaded = again(model, tmp_path)
    assert np.array_equal(loaded.initial_, model.initial_)
    assert same_scores(model, loaded, HELD)


def test_a_model_fitted_from_given_tables_keeps_them(tmp_path):
    tables = sj.Params.random(3, 4, 5, rng=9)
    loaded = again(hsmm(init=tables), tmp_path)
    assert np.array_equal(loaded.init.duration, tables.duration)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_partial_fit_continues_after_loading(algorithm, tmp_path):
    whole = spectral(algorithm=algorithm)
    first = sj.SpectralHSMM(2, 2, algorithm=algorithm).fit(DATA[:150])
    loaded = again(first, tmp_path).partial_fit(DATA[150:])
    assert np.array_equal(loaded.operators_.B, whole.operators_.B)
    assert np.array_equal(loaded.score_samples(HELD), whole.score_samples(HELD))


def test_partial_fit_fails_after_a_save_without_moments(tmp_path):
    model = spectral()
    full, small = tmp_path / "full.sojourn", tmp_path / "small.sojourn"
    model.save(full)
    model.save(small, moments=False)
    assert small.stat().st_size < 0.7 * full.stat().st_size  # trees and operators stay
    loaded = sj.load(small)
    assert same_scores(model, loaded, HELD)
    with pytest.raises(sj.SojournError, match="saved without its moments"):
        loaded.partial_fit(DATA)
    loaded.save(small)  # saved again, they are still missing
    with pytest.raises(sj.SojournError, match="saved without its moments"):
        sj.load(small).partial_fit(DATA)


@given(
    st.one_of(
        st.sets(st.text().filter(lambda s: not s.endswith("\0")), min_size=1),
        st.sets(st.integers(0, 2**63 - 1), min_size=1),
    )
)
def test_vocabularies_come_back_exactly(symbols):
    vocabulary = sj.Sequences.from_lists([list(symbols)]).vocabulary
    model = hsmm(vocabulary)
    path = GOLDEN.parent / "unused"
    data = container.to_bytes(*content_of(model))
    content, arrays = container._parsed(str(path), head_of(data), data)
    loaded = saving._loaded(content, arrays)
    assert loaded.vocabulary_.dtype == vocabulary.dtype
    assert loaded.vocabulary_.tolist() == vocabulary.tolist()


def test_a_discretizer_is_kept_with_the_model(tmp_path):
    altitude = np.linspace(0, 9, 40) ** 2
    discretizer = sj.Discretizer(4).fit(altitude)
    found = again(hsmm(), tmp_path, extras={"altitude": discretizer}).extras_["altitude"]
    assert found.transform(altitude).tolist() == discretizer.transform(altitude).tolist()


def test_extras_come_back(tmp_path):
    extras = {"edges": np.array([[0.5, 1.5]]), "unit": "m/s", "n": 3, "names": np.array(["a", "é"])}
    found = again(hsmm(), tmp_path, extras=extras).extras_
    assert found["unit"] == "m/s"
    assert found["n"] == 3
    assert np.array_equal(found["edges"], extras["edges"])
    assert found["names"].tolist() == ["a", "é"]
    assert again(hsmm(), tmp_path, extras={"array": 3}).extras_ == {"array": 3}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,  # a view that is not contiguous
        np.arange(12.0)[::3],
        np.arange(6, dtype=">i8"),
        np.array(2.5),
        np.empty((0, 3)),
        np.eye(40, dtype=np.int64) * 300,  # mostly zeros
        np.array([[2**62, 1], [0, 5]]),
        np.array([[-1, 4]]),
        np.array([True, False]),
        np.array([np.nan, -0.0, np.inf, 5e-324]),
    ],
)
def test_arrays_come_back_whatever_their_layout(array, tmp_path):
    found = again(hsmm(), tmp_path, extras={"x": array, "y": 1}).extras_["x"]
    assert found.shape == array.shape
    assert found.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(found, array, equal_nan=array.dtype.kind == "f")
    assert np.array_equal(np.signbit(found), np.signbit(array))


def test_plain_values_come_back_with_their_types():
    value = {
        "a": (1, [2.5, None, True], (float("inf"), "x")),
        "b": {"tuple": 1},
        "c": {},
        "d": np.float64(0.1),
        "e": range(3),
    }
    found = decode(json.loads(json.dumps(encode(value, "v", {}))), {})
    assert found == {**value, "e": (0, 1, 2)}
    assert type(found["d"]) is float


def test_errors_name_what_a_file_cannot_hold(tmp_path):
    model = spectral()
    model.random_state = np.random.default_rng(0)
    with pytest.raises(sj.SojournError, match=r"arguments.random_state is a Generator.*set_params"):
        model.save(tmp_path / "model.sojourn")
    with pytest.raises(sj.SojournError, match=r"learned.extras_.x is an array of complex128"):
        saving.save(hsmm(), tmp_path / "model.sojourn", extras={"x": np.zeros(2, complex)})
    assert list(tmp_path.iterdir()) == []


def test_only_fitted_models_of_this_package_are_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        sj.SpectralHSMM(2, 2).save(tmp_path / "model.sojourn")

    class Other(sj.SpectralHSMM):
        pass

    with pytest.raises(sj.SojournError, match="a Other cannot be saved"):
        Other(2, 2).fit(DATA).save(tmp_path / "model.sojourn")


@pytest.mark.parametrize("name", ["spectral", "hsmm", "contexts"])
def test_golden_files_of_schema_1_are_read(name):
    expected = json.loads((GOLDEN / f"{name}-1.json").read_text("utf-8"))
    model = sj.load(GOLDEN / f"{name}-1.sojourn")
    assert model.vocabulary_.tolist() == expected["vocabulary"]
    # Another processor may add in another order: some units in the last place per symbol.
    found = model.score_samples(expected["sequences"])
    np.testing.assert_allclose(found, expected["log_prob"], rtol=1e-12)
    if name == "spectral":
        model.partial_fit(expected["sequences"] * 5)
    if name == "contexts":  # whose symbols have operators of their own: they score by these
        assert len(model.operators_.modes) == 0


def test_a_detector_that_combined_its_evidence_otherwise_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "detector.sojourn"
    sj.AnomalyDetector(sj.SpectralHSMM()).fit(DATA).save(path)
    monkeypatch.setitem(combination.GROUPS["order"], "contexts", 9.0)  # as another version may
    with pytest.raises(sj.SojournError, match=r"combined its evidence otherwise.*fit it again"):
        sj.load(path)


def test_a_newer_schema_is_refused_with_a_sentence(tmp_path):
    content, arrays = content_of(hsmm())
    path = tmp_path / "new.sojourn"
    path.write_bytes(container.to_bytes({**content, "schema": 2, "version": "9.0"}, arrays))
    with pytest.raises(sj.SojournError, match=r"written by sojourn 9.0 in schema 2.*newer version"):
        sj.load(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"magic": "something else"}, "not a saved model"),
        ({"estimator": "Popen"}, "holds a 'Popen'"),
        ({"estimator": ["HSMM"]}, "damaged"),
        ({"learned": []}, "damaged"),
        ({"learned": {"save": 1, "x_": 2}}, "holds 'save'"),
        ({"arguments": {"n_states": 1, "max_duration": 1, "shell": True}}, "damaged"),
        ({"learned": {"os": {"system": "true"}}}, "holds a 'os'"),
        ({"learned": {"x_": {"array": "nothing"}, "y_": 0}}, "damaged"),
    ],
)
def test_a_file_that_was_signed_again_is_still_checked(change, words, tmp_path):
    content, arrays = content_of(hsmm())
    path = tmp_path / "bad.sojourn"
    path.write_bytes(container.to_bytes({**content, **change}, arrays))
    with pytest.raises(sj.SojournError, match=words):
        sj.load(path)


@pytest.mark.parametrize("estimator", [spectral, hsmm], ids=["spectral", "hsmm"])
def test_arrays_that_were_changed_and_signed_again_cannot_reach_a_kernel(estimator, tmp_path):
    content, arrays = content_of(estimator())
    path = tmp_path / "bad.sojourn"
    changed = 0
    for name, array in arrays.items():
        for other in (array[..., :-1], array[None], array.astype(np.float32), array[:0]):
            if name.endswith("history_") or "singular" in name:
                continue
            if (other.dtype, other.shape) == (array.dtype, array.shape):
                continue  # was empty before
            if name.endswith("tail") and other.dtype == np.float32:
                continue  # probabilities still, which Params keeps as float64
            path.write_bytes(container.to_bytes(content, {**arrays, name: other}))
            with pytest.raises(sj.SojournError):
                pytest.fail(f"{name} as {other.dtype} {other.shape}: {sj.load(path)}")
            changed += 1
    assert changed > 10


def test_a_vocabulary_of_another_model_is_refused():
    model = hsmm()
    check_model(model)
    model.vocabulary_ = model.vocabulary_[:2]
    with pytest.raises(sj.SojournError, match="vocabulary has 2 symbols, n_symbols_ is 5, the mod"):
        check_model(model)


def test_codes_beyond_the_vocabulary_cannot_reach_a_kernel(tmp_path):
    content, arrays = content_of(spectral())
    codes = arrays["learned.moments_.heldout.codes"].copy()
    codes[3] = 10**6
    path = tmp_path / "bad.sojourn"
    path.write_bytes(
        container.to_bytes(content, {**arrays, "learned.moments_.heldout.codes": codes})
    )
    with pytest.raises(sj.SojournError, match=r"heldout.codes"):
        sj.load(path)


def test_errors_name_a_path_that_is_no_model(tmp_path):
    for name, data in (
        ("empty", b""),
        ("short", b"\x05"),
        ("text", b"id,symbol\n" * 1000),
        ("huge", b"\xff" * 100),
        ("magic", b"\x0d\0\0\0\0\0\0\0sojourn model" + b"\0" * 100),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(sj.SojournError, match=name):
            sj.load(path)
    with pytest.raises(IsADirectoryError):
        sj.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        sj.load(tmp_path / "nothing.sojourn")
    with pytest.raises(FileNotFoundError):
        hsmm().save(tmp_path / "nowhere" / "model.sojourn")


def test_a_message_about_a_hostile_file_moves_no_cursor(tmp_path):
    content, arrays = content_of(hsmm())
    path = tmp_path / "bad\x1b[2J\nname"
    for change in (
        {"schema": 99, "version": "\x1b]0;owned\x07\n\u202e2.0"},
        {"estimator": "\x1b[31m"},
        {"learned": {"\x1b[31m\r": 1, "x_": 2}},
        {"learned": {"\x9b31m": {"x": 1}}},
    ):
        path.write_bytes(container.to_bytes({**content, **change}, arrays))
        with pytest.raises(sj.SojournError) as caught:
            sj.load(path)
        assert str(caught.value).isprintable()


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(sj.SojournError, match="fifo is a pipe, a device or a socket"):
        sj.load(path)
    with pytest.raises(sj.SojournError, match="is a pipe"):
        sj.HSMM(2, 2).fit(DATA, checkpoint=path, resume=True)


def test_every_cut_off_file_is_refused(tmp_path):
    data = (GOLDEN / "hsmm-1.sojourn").read_bytes()
    path = tmp_path / "cut.sojourn"
    for n in [*range(0, len(data), 23), len(data) - 1]:
        path.write_bytes(data[:n])
        with pytest.raises(sj.SojournError):
            sj.load(path)


@pytest.mark.parametrize("name", ["spectral", "hsmm"])
def test_mutations_of_a_file_are_refused_or_change_nothing(name, tmp_path):
    tally = fuzz(GOLDEN / f"{name}-1.sojourn", tmp_path / "mutant", 1000, seed=5)
    assert tally["other content"] == 0
    assert tally["refused"] > 900  # the rest touched blanks in the header


@pytest.mark.parametrize("name", ["spectral", "hsmm"])
def test_signed_changes_are_refused_or_harmless(name, tmp_path):
    symbols = json.loads((GOLDEN / f"{name}-1.json").read_text("utf-8"))["vocabulary"]

    def use(model):
        model.set_params(n_jobs=1, unknown="missing").score_samples([symbols * 5])

    path = GOLDEN / f"{name}-1.sojourn"
    with np.errstate(all="ignore"):
        tally = fuzz_signed(path, tmp_path / "signed", 500, 6, use)
    assert min(tally.values()) > 100


def test_a_deeply_nested_header_is_refused(tmp_path):
    content, arrays = content_of(hsmm())
    deep = "[" * 5000 + "]" * 5000
    text = container._canonical({**content, "learned": 0}).replace(
        '"learned":0', f'"learned":{deep}'
    )
    (tmp_path / "deep").write_bytes(serialise(arrays, {"sojourn": text}))
    with pytest.raises(sj.SojournError, match="damaged"):
        sj.load(tmp_path / "deep")
    nested = 0
    for _ in range(400):  # shallow enough for JSON
        nested = [nested]
    (tmp_path / "deep").write_bytes(container.to_bytes({**content, "learned": nested}, arrays))
    with pytest.raises(sj.SojournError, match="damaged"):
        sj.load(tmp_path / "deep")


def test_a_save_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path):
    found = kill_saves(tmp_path, [spectral(), hsmm()], HELD, kills=20, seed=0)
    assert found["neither"] == 0
    assert found["killed while writing"] > 0  # else the test would show nothing


def test_a_save_that_fails_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "model.sojourn"
    old = hsmm(seed=1)
    old.save(path)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        hsmm(seed=2).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.sojourn"]
    assert np.array_equal(sj.load(path).transmat_, old.transmat_)


def test_what_was_written_wrong_does_not_replace_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.sojourn"
    old = hsmm(seed=1)
    old.save(path)
    to_bytes = container.to_bytes
    monkeypatch.setattr(container, "to_bytes", lambda *a: to_bytes(*a)[:-1] + b"\x07")
    with pytest.raises(sj.SojournError, match="checksum"):
        hsmm(seed=2).save(path)
    assert np.array_equal(sj.load(path).transmat_, old.transmat_)


def test_links_and_permissions_outlive_a_save(tmp_path):
    path, link = tmp_path / "model.sojourn", tmp_path / "link.sojourn"
    hsmm(seed=1).save(path)
    path.chmod(0o640)
    link.symlink_to(path)
    hsmm(seed=2).save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert np.array_equal(sj.load(path).transmat_, hsmm(seed=2).transmat_)


def test_a_model_is_small_on_disk():
    """Counts are kept in few bytes: a default fit must not write its tables out in full."""
    model = spectral(algorithm="adjacent")
    content, arrays = content_of(model)
    full = sum(t.H.nbytes + t.H_o.nbytes for t in model.moments_.tables)
    assert len(container.to_bytes(content, arrays)) < full
