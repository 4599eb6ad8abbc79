"""The page of a comparison, from made-up runs."""

import re
from html.parser import HTMLParser

from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.cluster.scenario.comparison import figures_of
from rmqlab.cluster.scenario.comparison_page import PlayedVariant, render_comparison

A, S = "broker-a", "broker-a-s"


class Page(HTMLParser):
    """Notes what a page shows, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.classes: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.classes += (values.get("class") or "").split()
        self.links += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def played(name: str, run: MadeUpRun) -> PlayedVariant:
    history = run.history()
    return PlayedVariant(name=name, figures=figures_of(history, run.judge()), history=history, directory="/runs/1")


def promoted_run() -> MadeUpRun:
    """Ten sends, the master's death, and its slave as master."""
    run = MadeUpRun()
    for number in range(10):
        run.wait(0.1)
        run.send(number)
    run.end(A)
    run.wait(1)
    run.send(10, "refused")
    run.add(S, "role_changed", broker_name=A, role="SYNC_MASTER", broker_id=0, role_before="SLAVE", broker_id_before=1)
    return run


def test_the_page_has_the_table_and_a_timeline_of_each_run() -> None:
    page = Page(
        render_comparison("kill <master>", "Claimed & so", [played("4.9", promoted_run()), played("b", MadeUpRun())])
    )
    assert (page.tags.count("table"), page.tags.count("svg")) == (1, 2)
    assert {"kill <master>", "Claimed & so", "4.9", "refused, messages", "broker-a killed"} <= set(page.words)
    assert {"outcome-SEND_OK", "outcome-refused", "shade"} <= set(page.classes)
    assert "broker-a-s becomes master" in page.words


def test_the_page_needs_no_network() -> None:
    page = Page(render_comparison("kill-master", "", [played("4.9", promoted_run())]))
    assert page.links == ["data:,"]


def test_the_names_of_masters_that_follow_each_other_do_not_overlap() -> None:
    run = promoted_run()
    run.wait(0.1)
    run.add(A, "role_changed", broker_name=A, role="SYNC_MASTER", broker_id=0, role_before="SLAVE", broker_id_before=1)
    text = render_comparison("kill-master", "", [played("4.9", run)])
    rows = re.findall(r'<text class="note mark" x="[0-9.]+" y="([0-9.]+)">(.*?)</text>', text)
    assert [name for _, name in rows] == [S, A]
    assert float(rows[1][0]) - float(rows[0][0]) >= 11, "the height of a line"


def test_the_frame_of_a_timeline_begins_beside_its_numbers() -> None:
    """No rows have names: their room was empty, and half of a narrow screen."""
    text = render_comparison("kill-master", "", [played("4.9", promoted_run())])
    (left,) = re.findall(r'data-left="([0-9]+)"', text)
    starts = [float(x) for x in re.findall(r'<rect class="outcome-[^"]*" x="([0-9.]+)"', text)]
    assert int(left) <= 60 <= min(starts) < 196
