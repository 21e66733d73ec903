"""Heavy hitters: whole values in one round, and TrieHH++ level by level."""

from __future__ import annotations

import io
import json

import pytest
from in_memory_people import CountsPopulation, seeded
from rich.console import Console

import thresher as th
from thresher.errors import InvalidSetting, NotReleased, VerificationFailed
from thresher.privacy.units import MEMBER
from thresher.questions import END, Prefixes, Values
from thresher.verbs import heavy_hitters

SIX = th.plan(1, 1e-8, rounds=6)
ONE = th.plan(1, 1e-8)
WORDS = {"the": 9_000, "then": 4_000, "there": 3_000, "a": 5_000, "": 2_000, "thesaurus": 2_500, "rare": 2}


def test_one_shot_finds_whole_values_in_one_round() -> None:
    people = CountsPopulation(WORDS)
    answer = heavy_hitters(people, "word", plan=ONE)
    assert people.asked == [Values(("word",))]
    assert {item.item for item in answer} == set(WORDS) - {"rare"}
    assert answer.top(2) == answer.items[:2]
    assert [item.item for item in answer.top(2)] == ["the", "a"]
    assert all(item.complete for item in answer)
    assert answer.guarantee == ONE.guarantee.for_unit(MEMBER) == answer.verify()


def test_one_shot_has_no_trie_because_no_prefix_was_counted() -> None:
    answer = heavy_hitters(CountsPopulation(WORDS), "word", plan=ONE)
    assert answer.trie is None
    assert "trie" not in json.loads(answer.to_json())
    with pytest.raises(InvalidSetting, match="one-shot"):
        answer.tree()


def test_what_is_printed_has_the_largest_first_and_no_control_characters() -> None:
    people = CountsPopulation({"the": 90_000, "evil\x1b[2J": 30_000} | {f"w{place:02d}": 2_000 for place in range(25)})
    answer = heavy_hitters(people, "word", plan=ONE)
    for text in (str(answer), answer._repr_html_()):
        assert text.index("the") < text.index("evil") < text.index("w0")
        assert f"… {len(answer) - 20} more" in text and "differential privacy" in text
    assert "\x1b" not in str(answer)


def test_trie_levels_part_the_from_then() -> None:
    people = CountsPopulation(WORDS)
    answer = heavy_hitters(people, "word", plan=SIX, method="trie", step=1)
    assert answer.to_dict().keys() == {"the", "then", "there", "a", ""}
    assert [item.item for item in answer.unfinished] == ["thesau"]
    assert not answer["thesau"].complete
    assert answer.rounds_asked == 6
    nodes = {(node.prefix, node.complete): node for node in answer.trie.nodes}
    assert nodes["the", True].count == answer["the"].count
    assert nodes["the", False].estimate > nodes["the", True].estimate
    assert nodes["the", True].parent == "the"
    assert {node.label for node in answer.trie.children(nodes["the", False])} == {"the", "then…", "ther…", "thes…"}
    assert answer.trie.children(nodes["the", True]) == []


def test_each_level_asks_only_for_extensions_of_open_prefixes() -> None:
    people = CountsPopulation(WORDS)
    heavy_hitters(people, "word", plan=SIX, method="trie", step=1)
    questions = [question for question in people.asked if isinstance(question, Prefixes)]
    assert [(question.length, question.known) for question in questions] == [(i, i - 1) for i in range(1, 7)]
    assert questions[0].parents == frozenset()
    assert questions[1].parents == {"t", "a"}
    assert questions[2].parents == {"th"}  # "a" is complete, and "" was so from the start
    assert questions[3].parents == {"the"}
    assert all(END not in parent for question in questions for parent in question.parents)


@pytest.mark.parametrize("step", [2, 3, 5])
def test_larger_steps_find_the_same_words(step: int) -> None:
    plan = th.plan(1, 1e-8, rounds=-(-10 // step))
    people = CountsPopulation(WORDS)
    answer = heavy_hitters(people, "word", plan=plan, method="trie", step=step)
    assert answer.to_dict().keys() == set(WORDS) - {"rare"}
    assert answer.unfinished == ()
    assert [question.length for question in people.asked] == [step * i for i in range(1, plan.rounds + 1)]  # type: ignore[attr-defined]


def test_it_stops_when_nothing_extends_and_gives_nothing_back() -> None:
    seen: list[tuple[int, int, str]] = []
    people = CountsPopulation({"ab": 5_000, "xyzzy": 3})
    answer = heavy_hitters(people, "word", plan=SIX, method="trie", step=1, progress=lambda *args: seen.append(args))
    assert answer.rounds_asked == len(people.asked) == 3
    assert answer.to_dict().keys() == {"ab"}
    assert answer.guarantee.rounds == 6 and answer.guarantee.epsilon == SIX.epsilon
    assert [(done, total) for done, total, _ in seen] == [(1, 6), (2, 6), (3, 6)]
    assert seen[2][2] == "heavy_hitters of word, trie"


@pytest.mark.parametrize("method", ["one-shot", "trie"])
def test_nothing_found_is_an_answer(method: str) -> None:
    plan = ONE if method == "one-shot" else SIX
    answer = heavy_hitters(CountsPopulation({"rare": 2}), "word", plan=plan, method=method, step=1)  # type: ignore[arg-type]
    assert len(answer) == len(answer.to_arrow()) == len(answer.trie or ()) == 0
    assert answer.rounds_asked == 1
    assert answer.top(5) == ()
    with pytest.raises(NotReleased):
        answer["rare"]


def test_estimates_are_within_what_the_binomial_law_allows() -> None:
    """Six standard deviations: a false alarm in two of a billion words."""
    answer = heavy_hitters(CountsPopulation(WORDS), "word", plan=SIX, method="trie", step=1)
    for word in ("the", "then", "a"):
        deviation = (WORDS[word] * (1 - SIX.sampling_rate) / SIX.sampling_rate) ** 0.5
        assert abs(answer[word].estimate - WORDS[word]) < 6 * deviation
        assert abs(answer[word].estimate - 2 * WORDS[word]) > 6 * deviation


def test_the_table_has_the_promised_columns() -> None:
    answer = heavy_hitters(CountsPopulation(WORDS), "word", plan=SIX, method="trie", step=1)
    table = answer.to_arrow()
    assert table.column_names == ["item", "count", "estimate", "lower", "upper", "complete", "rounds"]
    estimates = table["estimate"].to_pylist()
    assert estimates == sorted(estimates, reverse=True)
    assert answer.to_pandas()["complete"].sum() == answer.to_polars()["complete"].sum() == 5
    content = json.loads(answer.to_json())
    assert content["rounds_asked"] == 6 and content["private"] is True
    assert {item["item"] for item in content["rows"]} == set(table["item"].to_pylist())
    assert len(content["more"]["trie"]) == len(answer.trie)


def test_values_that_are_not_text_are_found_by_one_shot() -> None:
    answer = heavy_hitters(CountsPopulation({12: 4_000, 127: 3_000}), "code", plan=ONE)
    assert [item.item for item in answer] == [12, 127]
    assert answer.to_arrow()["item"].to_pylist() == [12, 127]
    assert json.loads(answer.to_json())["rows"][0]["item"] == 12


def test_the_tree_is_shown_without_control_characters() -> None:
    people = CountsPopulation({"the": 9_000, "then": 4_000, "evil\x1b[2J": 3_000})
    console = Console(file=io.StringIO(), width=100)
    console.print(heavy_hitters(people, "word", plan=SIX, method="trie", step=3).tree())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b" not in shown and "evil�[2J" in shown
    assert "the…" in shown and "everything below the threshold" in shown


def test_the_tree_leaves_out_chains_and_what_is_small() -> None:
    people = CountsPopulation({"abcd": 40_000, "abxy": 9_000, "q": 3_000}, seeded(1))
    answer = heavy_hitters(people, "word", plan=SIX, method="trie", step=1)
    assert {node.label for node in answer.trie.without_chains().nodes} == {"ab…", "abcd", "abxy", "q"}
    assert len(answer.trie) == 10
    console = Console(file=io.StringIO(), width=100)
    console.print(answer.tree(most=2))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "abcd" in shown and "abxy" not in shown and "and 2 smaller nodes" in shown


def test_requests_that_are_refused_before_anything_is_asked() -> None:
    people = CountsPopulation(WORDS)
    for settings in (
        {"plan": SIX},
        {"plan": SIX, "method": "guess"},
        {"plan": SIX, "method": "trie", "step": 0},
        {"plan": SIX, "method": "trie", "step": 5_000},
        {"plan": ONE, "column": ""},
        {"plan": SIX, "column": "", "method": "trie"},
    ):
        with pytest.raises(InvalidSetting):
            heavy_hitters(people, **({"column": "word"} | settings))  # type: ignore[arg-type]
    assert people.asked == []


def test_a_seeded_draw_is_repeatable_and_guarantees_nothing() -> None:
    one, two = (
        heavy_hitters(CountsPopulation(WORDS, seeded(5)), "word", plan=SIX, method="trie", step=1) for _ in range(2)
    )
    assert one.items == two.items
    assert not one.private and "not private" in repr(one)
    with pytest.raises(VerificationFailed):
        _ = one.guarantee
