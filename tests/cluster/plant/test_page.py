"""docs/planted.md has the table of kinds as they are declared."""

from rmqlab.cluster.plant.kinds import KINDS
from tests.planted.page import PAGE, with_table


def test_the_page_has_the_table_of_kinds() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text()), "run python -m tests.planted.page"


def test_there_are_as_many_kinds_as_the_makefile_says() -> None:
    assert f"{len(KINDS)} kinds of violations" in (PAGE.parents[1] / "Makefile").read_text()
