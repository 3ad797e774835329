"""The report as a file: complete, small, inert whatever names the data hold, clear when refused."""

import csv
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from report_cases import EVIL, EVIL_ID, Detector, case, model

import sojourn as sj
from sojourn import cli
from sojourn.report import embedded
from sojourn.report.figures import figure
from sojourn.report.labels import read_known

MOST_BYTES = 1_000_000


class Page(HTMLParser):
    """Elements of a page with their attributes, its text, and whether elements are nested well."""

    VOID = ("meta", "input", "br", "img", "link")

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.script, self.words = [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.script += data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    def having(self, tag, **wanted):
        return [
            a
            for t, a in self.elements
            if t == tag and all(a.get(k) == v for k, v in wanted.items())
        ]


def written(folder, detector, sequences, **options):
    path = folder / "report.html"
    sj.write_report(detector, sequences, path, **options)
    text = path.read_text("utf-8")
    page = Page(text)
    assert page.open == []
    return text, page


def timelines(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def figures(page):
    return {a["aria-label"] for a in page.having("svg", role="img")}


def test_a_page_has_all_its_parts_and_makes_no_requests(tmp_path):
    detector, sequences = case()
    labels = np.arange(len(sequences)) % 4 == 0
    text, page = written(tmp_path, detector, sequences, labels=labels, title="My <flights>")
    assert "My &lt;flights&gt;" in text
    assert len([a for a in page.having("details") if "data-case" in a]) == 30
    assert [a["id"] for a in page.having("details") if "open" in a] == ["case-0"]
    groups = len([a for a in page.having("button") if a.get("class") == "group"])
    assert 0 < groups <= 3
    assert len(page.having("th", scope="row")) == 40 + 4 * 5 + groups  # and symbols of states
    shown = figures(page)
    assert {"ROC curve", "Precision-recall curve", "How long state 3 lasts"} <= shown
    assert "Graph of the transitions between states" in shown
    assert "mathdefault" not in text
    assert not re.search(r"https?://|//[a-z]+\.", text)
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    anchors = {a["href"][1:] for _, a in page.elements if "href" in a}
    assert anchors <= set(ids)


def test_rows_are_in_the_order_of_their_p_values(tmp_path):
    detector, sequences = case()
    text, page = written(tmp_path, detector, sequences)
    given = [float(a["data-v"]) for a in page.having("td") if "data-v" in a and "class" not in a]
    assert given == sorted(detector.pvalues(sequences).tolist())
    worst = sequences.ids[np.argmin(detector.score_samples(sequences))]
    assert timelines(text)["items"][0]["codes"] == list(
        sequences.codes[slice(*sequences.offsets[list(sequences.ids).index(worst) :][:2])]
    )


def test_names_of_symbols_and_ids_are_inert(tmp_path):
    detector, sequences = case()
    detector.model_.name_states([f"{EVIL} {i}" for i in range(4)])
    hostile = {"title": EVIL, "labels": [EVIL] * 40, "normal_label": EVIL}
    text, page = written(tmp_path, detector, sequences, **hostile, provenance={EVIL: EVIL_ID})
    assert EVIL not in text
    assert EVIL_ID not in text
    assert not [name for _, a in page.elements for name in a if name.startswith("on")]
    assert len(page.having("script")) == 3
    assert page.having("img") == []
    assert EVIL in timelines(text)["names"]
    assert timelines(text)["states"][1] == f"{EVIL} 1"
    assert timelines(text)["heat"]["names"][1].startswith(f"{EVIL} 1 (mostly")
    assert any("<img src=x" in words for words in page.words)  # as text, in the table
    data = text[text.index('id="data">') :]
    assert not set(data[10 : data.index("</script>")]) & set("<>&\u2028\u2029")


def test_what_could_end_a_script_is_escaped_in_json():
    nasty = {"</script>": "&amp;\u2028\u2029<!--"}
    assert json.loads(embedded(nasty)) == nasty
    assert not set(embedded(nasty)) & set("<>&\u2028\u2029")


def test_a_name_that_looks_like_a_colour_or_an_attribute_is_not_changed():
    svg = figure("f", "x", lambda ax: ax.text(0.5, 0.5, '#dc4446 id="a" $5 <b>'))
    assert '>#dc4446 id="a" $5 &lt;b&gt;</text>' in svg


def test_two_thousand_sequences_are_a_small_page(tmp_path):
    detector, sequences = case(2000, 300, seed=5)
    text, page = written(tmp_path, detector, sequences)
    assert len(text.encode()) < MOST_BYTES
    assert text.count("<tr") >= 2000
    assert "The first 100 of 2000 rows are printed" in text


def test_long_sequences_of_many_symbols(tmp_path):
    names = [f"symbol number {i:02d}" for i in range(60)]
    detector, sequences = case(33, 4000, n_symbols=60, names=names)
    text, _ = written(tmp_path, detector, sequences)
    assert len(text.encode()) < 2 * MOST_BYTES
    item = timelines(text)["items"][0]
    assert len(item["codes"]) == len(item["surprise"]) == sum(n for n, _ in item["states"]) == 4000
    assert len(item["lanes"]) == 24
    assert sorted(code for lane in item["lanes"] for code in lane) == sorted(set(item["codes"]))


def test_one_state_one_sequence_and_missing_symbols(tmp_path):
    params = sj.Params.random(1, 3, 2, rng=0)
    some = sj.Sequences.from_lists([["a", None, "b"], ["a", "a"]])
    detector = Detector(model(params, ["a", "b"])).fit(some)
    text, page = written(tmp_path, detector, some[:1])
    assert timelines(text)["items"][0]["codes"] == [0, -1, 1]
    assert page.having("button", id="all")
    assert re.search("[01] of 1 sequence (is|are) abnormal", text)


def test_a_spectral_model_shows_its_spectrum_and_no_states(tmp_path):
    train = sj.Params.random(2, 2, 4, rng=0).sample(200, 40, rng=1)
    detector = Detector(sj.SpectralHSMM(2, 2).fit(train)).fit(train)
    text, page = written(tmp_path, detector, train[:10])
    assert {"Singular values", "Held-out score"} <= figures(page)
    assert page.having("article") == []
    assert timelines(text)["items"][0]["states"] == []


def test_the_first_sentence_counts_and_doubts_and_origin_follow(tmp_path):
    detector, sequences = case(30, 40)
    text, page = written(tmp_path, detector, sequences, provenance={"Data": "today.csv"})
    k = int((detector.predict(sequences) == -1).sum())
    words = [" ".join(w.split()) for w in page.words if w.strip()]
    body = words[words.index("Which sequences are abnormal", 1) + 1 :]
    assert body[0] == f"{k} of 30 sequences {'is' if k == 1 else 'are'} abnormal."
    assert body.index("What to distrust") < body.index("30")  # before the numbers
    assert any("There were 30 training sequences" in w for w in body)
    at = words.index("Where this comes from")
    facts = dict(zip(words[at + 1 : at + 15 : 2], words[at + 2 : at + 16 : 2], strict=True))
    assert facts["Data"] == "today.csv"
    assert facts["Training sequences"] == "30"
    assert facts["Size"] == "4 states, stays of up to 8 steps"
    assert facts["Model"] == "HSMM(max_duration=8, n_states=4)"
    assert "contamination=0.05" in facts["Detector"]
    assert f"by sojourn {sj.__version__}" in facts["Written"]


@pytest.mark.parametrize("n_odd", [0, 30, 200])
def test_drift_is_a_doubt_where_normal_sequences_have_uneven_p_values(tmp_path, n_odd):
    p, other = sj.Params.random(2, 4, 4, rng=0), sj.Params.random(2, 4, 4, rng=9)
    detector = Detector(model(p, list("abcd"))).fit(_named(p.sample(400, 60, rng=1)))
    # Drawn from two models, half of the steps each: the likelihood falls a little for all.
    drawn = p.sample(200, 60, rng=2).codes.reshape(200, 60).copy()
    drawn[:n_odd, :12] = other.sample(200, 60, rng=3).codes.reshape(200, 60)[:n_odd, :12]
    text, _ = written(tmp_path, detector, _named(sj.Sequences.from_array(drawn)))
    assert ("the data have drifted" in text) == (n_odd == 200)


def _named(drawn):
    return sj.Sequences(drawn.codes, drawn.offsets, np.array(list("abcd")), drawn.ids)


def test_stays_at_the_limit_and_rare_states_are_doubts(tmp_path):
    p = sj.Params.random(3, 6, 5, rng=0)
    duration = p.duration.copy()
    duration[1] = [0.02] * 5 + [0.9]
    limited = sj.Params(p.start, p.transition, duration, p.emission)
    drawn = limited.sample(40, 50, rng=1)
    detector = Detector(model(limited, list("abcde"))).fit(
        sj.Sequences(drawn.codes, drawn.offsets, np.array(list("abcde")), drawn.ids)
    )
    detector.model_.visits_ = np.array([400.0, 300.0, 3.0])
    text, _ = written(tmp_path, detector, detector.typical_)
    assert "90% of the stays in state 1 last max_duration=6 steps" in text
    assert "Fewer than 20 stays in state 2" in text


def test_the_picture_of_all_sequences_has_their_states_in_order_of_score(tmp_path):
    detector, sequences = case(25, 300)
    heat = timelines(written(tmp_path, detector, sequences)[0])["heat"]
    assert (heat["by"], heat["span"], heat["columns"], len(heat["rows"])) == ("state", 300, 160, 25)
    order = np.argsort(detector.score_samples(sequences), kind="stable")
    steps = ((np.arange(160) + 0.5) * 300 / 160).astype(int)
    for i, runs in zip(order.tolist(), heat["rows"], strict=True):
        parts = re.findall(r"(\D)(\d*)", runs)
        drawn = np.repeat([ord(c) - 256 for c, _ in parts], [int(k or 1) for _, k in parts])
        assert np.array_equal(drawn, detector.model_.predict(sequences)[i][steps])


def test_a_context_tree_is_reported_by_symbols(tmp_path):
    train = sj.Params.random(2, 2, 12, rng=0).sample(60, 40, rng=1)
    detector = sj.AnomalyDetector(sj.ContextTree(), cv=2).fit(train)
    text, page = written(tmp_path, detector, train[:10])
    heat = timelines(text)["heat"]
    assert heat["by"] == "symbol"
    assert heat["names"][-1] == "other symbols"
    assert max(map(ord, "".join(heat["rows"]))) == 256 + 9
    assert "A ContextTree predicts without naming states" in text
    assert page.having("article") == []


def test_measurements_are_lines_on_the_bands_of_their_states(tmp_path):
    rng = np.random.default_rng(0)
    waves = np.tile(np.repeat([0.0, 5.0], 6), 4)
    normal = [np.column_stack([waves, -waves]) + rng.normal(size=(48, 2)) for _ in range(30)]
    detector = sj.AnomalyDetector(sj.HSMM(2, 8, max_iter=10), cv=2, contamination=0.1)
    detector.fit(sj.Signals.from_arrays(normal, channels=["load", EVIL]))
    odd = normal[0].copy()
    odd[20:30, 0] += 20
    odd[5, 1] = np.nan
    new = sj.Signals.from_arrays([odd, *normal[1:4]], ids=list("abcd"), channels=["load", EVIL])
    text, page = written(tmp_path, detector, new)
    assert EVIL not in text
    data = timelines(text)
    assert [channel["name"] for channel in data["channels"]] == ["load", EVIL]
    first, load = data["items"][0], data["channels"][0]
    back = load["low"] + np.array(first["values"][0]) / 1000 * (load["high"] - load["low"])
    assert np.allclose(back, odd[:, 0], atol=(load["high"] - load["low"]) / 1000)
    assert first["values"][1][5] is None
    assert first["typical"] in range(len(data["typical"]))
    assert len(load["bands"]) == 2
    assert any("load above what its state has" in words for words in page.words)
    assert len(page.having("article")) == 2


def test_steps_of_a_clock_are_shown_in_its_unit(tmp_path):
    p = sj.Params.random(2, 4, 4, rng=0)
    drawn = p.sample(60, 40, rng=1)
    times = np.tile(np.arange(40.0), 60) * 900
    at = np.datetime64("2024-01-01", "s") + times.astype("timedelta64[s]")
    events = sj.Sequences(drawn.codes, drawn.offsets, drawn.vocabulary, drawn.ids, times=at)
    timed = events.resample("15min")
    text, _ = written(tmp_path, sj.AnomalyDetector(sj.HSMM(2, 4), cv=2).fit(timed), timed[:3])
    assert timelines(text)["step"] == [15.0, "minutes"]
    assert "stays of up to 60 minutes" in text
    assert "minutes per stay" in text


def test_a_missing_folder_is_named_before_work_begins(tmp_path):
    with pytest.raises(sj.SojournError, match=r"there is no folder .*nowhere"):
        sj.write_report(None, None, tmp_path / "nowhere" / "report.html")


def test_labels_of_one_class_give_no_curves_and_a_note(tmp_path):
    detector, sequences = case(12)
    text, page = written(tmp_path, detector, sequences, labels=["normal"] * 12)
    assert "All labels are of one class" in text
    assert "ROC curve" not in figures(page)


@pytest.mark.parametrize("normal", [None, "given"])
def test_a_model_without_a_detector_is_calibrated_and_the_page_names_the_data(tmp_path, normal):
    p = sj.Params.random(2, 4, 4, rng=0)
    fitted = sj.HSMM(2, 4).fit(p.sample(100, 40, rng=1))
    usual = p.sample(60, 40, rng=2)
    X = usual if normal is None else p.sample(5, 40, rng=3)
    text, page = written(tmp_path, fitted, X, normal=usual if normal else None, contamination=0.1)
    expected = "itself, taken as mostly normal" if normal is None else "60 sequences given as norm"
    assert expected in text
    assert "10\u00a0%" in text
    assert len(page.having("article")) == 2


def test_a_detector_of_the_package(tmp_path):
    p = sj.Params.random(2, 4, 4, rng=0)
    detector = sj.AnomalyDetector(sj.HSMM(2, 4)).fit(p.sample(60, 40, rng=1))
    odd = sj.Sequences.from_lists(  # the first is one symbol over and over
        [[0] * 40, *p.sample(3, 40, rng=2).to_lists()], ids=list("abcd")
    )
    text, page = written(tmp_path, detector, odd)
    first = detector.explain(odd[:1])[0].reasons[0].text
    assert f"The most abnormal is <strong>a</strong>: {first}." in text
    assert timelines(text)["items"][0]["marks"] == sorted(detector.explain(odd[:1])[0].steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [0, 1]}, "there are 2 labels for 12 sequences"),
        ({"labels": ["x", "y"] * 6}, "say which one is normal with normal_label="),
        ({"labels": [None] * 12}, "the label of sequence 0 is missing"),
        ({"worst": 0}, "worst must be an integer of at least 1"),
        ({"normal": [[0, 1]]}, "is calibrated already"),
        ({"contamination": 0.1}, "is calibrated already"),
    ],
)
def test_refusals(tmp_path, options, message):
    detector, sequences = case(12)
    with pytest.raises(sj.SojournError, match=re.escape(message)):
        sj.write_report(detector, sequences, tmp_path / "r.html", **options)
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_that_is_not_fitted_is_refused(tmp_path):
    for estimator in (sj.HSMM(2, 3), sj.AnomalyDetector(sj.HSMM(2, 3))):
        with pytest.raises(sj.SojournError, match="fit"):
            sj.write_report(estimator, [[0, 1]], tmp_path / "r.html")


def test_a_failed_report_leaves_the_old_one(tmp_path):
    page = tmp_path / "report.html"
    page.write_text("old")
    detector, sequences = case(12)
    with pytest.raises(sj.SojournError):
        sj.write_report(detector, sequences, page, labels=[1])
    assert page.read_text() == "old"


@pytest.mark.parametrize(
    ("labels", "abnormal"),
    [
        ([True, False], [True, False]),
        (np.array([0, 1]), [False, True]),
        ([1, -1], [False, True]),
        (["Normal", "drill"], [False, True]),
        ([-1, -1], [True, True]),
    ],
)
def test_labels_in_their_usual_forms(labels, abnormal):
    assert read_known(labels, 2).abnormal.tolist() == abnormal


def test_the_normal_label_may_be_named_and_be_a_number():
    assert read_known([3, 4, 3], 3, 3).abnormal.tolist() == [False, True, False]
    assert read_known([3, 4, 3], 3, "3").abnormal.tolist() == [False, True, False]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of events with labels, and a model of them."""
    folder = tmp_path_factory.mktemp("report")
    detector, sequences = case(20, 30, ids=[f"f{i}" for i in range(20)])
    detector.model_.save(folder / "model.sojourn")
    for name, spoil in (("events.csv", False), ("mixed.csv", True)):
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["flight", "seconds", "command", "kind"])
            for i, (flight, symbols) in enumerate(
                zip(sequences.ids.tolist(), sequences, strict=True)
            ):
                for t, symbol in enumerate(symbols):
                    kind = "odd" if i < 3 or (spoil and t == 7) else "normal"
                    rows.writerow([flight, t, symbol, kind])
    return folder


COLUMNS = ("--id", "flight", "--time", "seconds", "--symbol", "command")


def test_the_command_writes_the_page_with_labels(files, capsys):
    target = files / "out.html"
    arguments = ["report", files / "model.sojourn", files / "events.csv", *COLUMNS, "-o", target]
    more = ["--labels", "kind", "--normal", files / "events.csv", "--title", "Night flights"]
    assert cli.run([*map(str, [*arguments, *more])]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    page = Page(target.read_text("utf-8"))
    assert "Night flights" in page.words
    assert page.words.count("odd") == page.having("span").count({"class": "tag bad"})
    assert "ROC curve" in figures(page)


def test_report_and_detect_agree_on_every_number_of_a_saved_detector(files, capsys):
    saved, target = files / "detector.sojourn", files / "agree.html"
    normal = sj.read(files / "events.csv", "flight", "seconds", "command")
    model = sj.SpectralHSMM(2, 2)
    sj.AnomalyDetector(model, contamination=0.1, cv=2).fit(normal).save(saved)
    text = (files / "events.csv").read_text("utf-8").replace(",3,s0,", ",3,never_seen,")
    (files / "new.csv").write_text(text, "utf-8")
    assert "never_seen" in text
    data = [files / "new.csv", *COLUMNS]
    assert cli.run([*map(str, ["detect", saved, *data, "--format", "json"])]) == 0
    found = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert cli.run([*map(str, ["report", saved, *data, "-o", target])]) == 0
    page = target.read_text("utf-8")
    rows = re.findall(
        r"<tr( class=\"alarm\".*?)?><th.*?>(f\d+)<.*?data-v=\"(.*?)\".*?data-v=\"(.*?)\"", page
    )
    assert len(rows) == len(found) == 20
    for alarm, name, pvalue, score in rows:
        row = found[name]
        assert (float(pvalue), float(score)) == (row["p_value"], row["score"])
        assert bool(alarm) == (row["verdict"] == "abnormal")
    assert 0 < sum(bool(alarm) for alarm, *_ in rows) < 20
    assert "never_seen occurs" in page
    assert (
        cli.run([*map(str, ["report", saved, *data, "-o", target, "--contamination", "0.2"])]) == 2
    )
    assert "calibrated when it was fitted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "more", "message"),
    [
        ("mixed.csv", ("--labels", "kind"), "column kind has 'normal' and 'odd' for sequence f10"),
        ("events.csv", ("--labels", "nothing"), "nothing"),
        ("events.csv", ("--labels", "flight"), "must be different columns"),
    ],
)
def test_the_command_refuses_labels_it_cannot_use(files, capsys, file, more, message):
    arguments = ["report", files / "model.sojourn", files / file, *COLUMNS, "-o", files / "no.html"]
    assert cli.run([*map(str, [*arguments, *more])]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (files / "no.html").exists()


def test_a_typical_sequence_keeps_its_symbols_beside_novel_ones(tmp_path):
    usual = [["b", "c", "c", "d"] * 5] * 30 + [["b", "c", "d"] * 6] * 30
    detector = sj.AnomalyDetector(sj.HSMM(2, 4, max_iter=5, random_state=0)).fit(usual)
    text, _ = written(tmp_path, detector, [["b", "c", "c", "bb", "d"] * 4])
    page = timelines(text)
    for item in page["typical"]:
        shown = [page["names"][code] for code in item["codes"]]
        assert shown in ([*"bccd"] * 5, [*"bcd"] * 6)
