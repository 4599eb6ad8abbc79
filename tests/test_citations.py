"""Each section and checklist item that tests and docstrings cite exists.

Both are in docs/protocol.
"""

import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.test_docs import DOCS, ROOT, headings, python_files, text_of

PROTOCOL = DOCS / "protocol"
PAGE_OF = {
    "remoting-and-nameserver": "remoting-and-nameserver.md",
    "remoting": "remoting-and-nameserver.md",
    "store-and-ha": "store-and-ha.md",
    "store-ha": "store-and-ha.md",
    "broker-requests": "broker-requests.md",
    "dledger": "dledger.md",
    "spark.md": "spark.md",
}
SECTION = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, PAGE_OF))}) sections? (\d+(?:\.\d+)?)(?: to (\d+))?")
ITEMS = re.compile(r"(?<![\w-])(remoting|store-ha|broker-requests|dledger)#(\d+)(?!\.?\d)((?:, #\d+)*)(?: to #(\d+))?")
BARE_SECTION = re.compile(r"(?:\(|, )section (\d+(?:\.\d+)?)")
DEFAULT_PAGES = [
    ("broker/ha/", "store-and-ha"),
    ("tests/broker/ha/", "store-and-ha"),
    ("nameserver/", "remoting-and-nameserver"),
    ("broker/registration.py", "remoting-and-nameserver"),
    ("broker/handlers/", "broker-requests"),
    ("tests/broker/handlers/", "broker-requests"),
    ("rmqlab/dledger/", "dledger"),
    ("tests/dledger/", "dledger"),
]
"""What a section without a page belongs to, by where it is cited."""


class Citation(NamedTuple):
    where: str
    page: str
    number: str


def prose_of(path: pathlib.Path) -> str:
    """The file on one line, without the signs that begin lines of comments."""
    return re.sub(r"\s*\n\s*(?:#:? )?", " ", text_of(path))


def cited_sections() -> Iterator[Citation]:
    for path in python_files():
        where, text = str(path.relative_to(ROOT)), prose_of(path)
        for page, number, last in SECTION.findall(text):
            numbers = map(str, range(int(number), int(last) + 1)) if last and "." not in number else [number]
            yield from (Citation(where, page, each) for each in numbers)
        for prefix, page in DEFAULT_PAGES:
            if where.startswith(prefix):
                yield from (Citation(where, page, number) for number in BARE_SECTION.findall(text))


def cited_items() -> Iterator[Citation]:
    for path in python_files():
        for page, first, more, last in ITEMS.findall(prose_of(path)):
            numbers = {int(first), *map(int, re.findall(r"\d+", more)), *range(int(first), int(last or first) + 1)}
            yield from (Citation(str(path.relative_to(ROOT)), page, str(number)) for number in sorted(numbers))


def sections_of(page: str) -> set[str]:
    """The numbers of a page's headings."""
    numbers = (re.match(r"(\d+(?:\.\d+)?)\.? ", heading) for heading in headings(text_of(PROTOCOL / PAGE_OF[page])))
    return {number[1] for number in numbers if number}


def items_of(page: str) -> set[str]:
    """The numbers of a page's checklist."""
    checklist = text_of(PROTOCOL / PAGE_OF[page]).rpartition("Checklist for conformance")[2]
    return set(re.findall(r"^(\d+)\. ", checklist, re.MULTILINE))


def test_every_section_that_is_cited_exists() -> None:
    known = {page: sections_of(page) for page in PAGE_OF}
    cited = [*cited_sections()]
    assert len(cited) > 100
    assert [citation for citation in cited if citation.number not in known[citation.page]] == []


def test_every_checklist_item_that_is_cited_exists() -> None:
    known = {page: items_of(page) for page in ("remoting", "store-ha", "broker-requests", "dledger")}
    cited = [*cited_items()]
    assert len(cited) > 100
    assert [citation for citation in cited if citation.number not in known[citation.page]] == []


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("remoting", "conformance_remoting.md"),
        ("store-ha", "conformance_store_ha.md"),
        ("broker-requests", "conformance_broker_requests.md"),
        ("dledger", "conformance_dledger.md"),
    ],
)
def test_the_checklists_have_the_items_of_their_tables(page: str, table: str) -> None:
    rows = re.findall(r"^\| (\d+) \|", text_of(ROOT / "tests" / table), re.MULTILINE)
    assert set(rows) == items_of(page)


def test_citations_are_understood() -> None:
    text = "store-and-ha section 4.5; spark.md sections 1 to 4; of any (section 2.3)"
    assert SECTION.findall(text) == [("store-and-ha", "4.5", ""), ("spark.md", "1", "4")]
    assert BARE_SECTION.findall(text) == ["2.3"]
    assert ITEMS.findall("remoting#3, #4. store-ha#7 to #9") == [
        ("remoting", "3", ", #4", ""),
        ("store-ha", "7", "", "9"),
    ]
