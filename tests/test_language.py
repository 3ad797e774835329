"""Plain English: the words that the glossary of CONTRIBUTING.md replaced do not come back."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("src/**/*.py", "src/**/*.j2", "docs/*.md", "*.md", "reproduction/*", "benchmarks/**/*.py")
PLACES += ("examples/**/*.py", "scripts/*.py")
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for pattern in PLACES
    for path in sorted(ROOT.glob(pattern))
    if path.is_file()
}

AMOUNT = (
    r"(?:nats|bits|bytes|rows?|tasks?|files?|tables?|seconds?|symbols?|columns?|numbers?|steps?"
)
AMOUNT += r"|parameters?|models?|operators?|sequences?|lines?|marks?|s|ns|µs|ms|MB)"
EACH = r"(?:symbol|state|worker|sequence|core|second|step|thread|chunk|row|line|cell|pass|partition"
EACH += r"|iteration|set|stay|block|method|size|number|control|object)"

# Patterns of retired words, and what to write. In sources `_` counts as a space, so that the words
# are found in names too.
RETIRED = {
    rf"\b{AMOUNT} (?-i:an?) {EACH}\b(?! (?:needs|holds?|has|continues|away|of))": "per",
    r"\blaws?\b": "distribution, family",
    r"\bclimb(?:s|ed|ing)?\b": "run EM, maximise",
    r"\bhills?\b": "local optimum",
    r"\bsoundness\b|\b(?:is|are|be) sound\b|\bsound\(": "valid, validate",
    r"\bwhole\(|\bone of\(|\bwhole number\b": "positive_int, check_choice, integer",
    r"\btold (?:from|apart by)\b": "inferred from, distinguished by",
    r"\bpast (?:memory|one machine)\b": "larger than memory, on a cluster",
    r"\bstays met\b|\bmet at a random step\b": "length-biased stays",
    r"\bfound against false alarms\b": "ROC curve",
    r"\b(?:goes|go|going|went) on\b": "continue",
    r"\belse guessed\b|\bwhose a row is\b": "column with the sequence id (guessed if omitted)",
}
NAMES = {"said", "say", "went", "whose", "told", "climb", "law", "laws", "sound", "hill"}

# Aircraft climb: symbols of flights.
FLIGHTS = {
    "README.md",
    "benchmarks/reading.py",
    "docs/cli.md",
    "docs/data.md",
    "docs/datasets.md",
    "docs/index.md",
    "docs/reading.md",
    "docs/start.md",
    "scripts/make_approaches.py",
    "src/sojourn/data/sequences.py",
    "src/sojourn/errors.py",
    "src/sojourn/datasets/recorded.py",
    "src/sojourn/datasets/simulate.py",
    "src/sojourn/io/sort.py",
    "src/sojourn/io/sources.py",
}


def running(text):
    """A text without line ends, marks of comments and underscores."""
    return re.sub(r"\s+", " ", re.sub(r"\n\s*(?:#|>>>|\.\.\.|\|)?", " ", text).replace("_", " "))


@pytest.mark.parametrize("pattern", RETIRED)
def test_texts_use_the_words_of_the_glossary(pattern):
    found = []
    for name, text in TEXTS.items():
        if "climb" in pattern and name in FLIGHTS:
            continue
        text = running(text)
        found += [
            f"{name}: …{text[max(match.start() - 40, 0) : match.end() + 30]}…"
            for match in re.finditer(pattern, text, re.IGNORECASE)
        ]
    assert not found, f"write {RETIRED[pattern]!r} in\n" + "\n".join(found)


def names_of(tree):
    """Names of variables, arguments, attributes, functions and classes."""
    for node in ast.walk(tree):
        for field in ("id", "arg", "attr", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name


def test_names_use_the_words_of_the_glossary():
    sources = {name: text for name, text in TEXTS.items() if name.startswith("src")}
    assert len(sources) > 50
    found = {
        f"{path}: {name}"
        for path, text in sources.items()
        if path.endswith(".py")
        for name in names_of(ast.parse(text))
        if NAMES & set(name.lower().split("_"))
    }
    assert not found


def test_a_retired_word_is_found_in_names_across_lines_and_in_comments():
    for text in ("nats a\n    # symbol", "nats_a_symbol", "Nats a symbol"):
        assert re.search(next(iter(RETIRED)), running(text), re.IGNORECASE)
    assert not re.search(next(iter(RETIRED)), running("Missing symbols\n\nA symbol"), re.IGNORECASE)
