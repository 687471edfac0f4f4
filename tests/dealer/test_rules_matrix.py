"""docs/rules.md: no house rule without a test, none without code, and the page says so as it is."""

from tests.dealer import rules_matrix


def test_the_pages_have_every_rule_once() -> None:
    counts = {"DK": 5, "CC": 17, "P7": 14, "LS": 12, "PK": 20, "AL": 22}
    assert set(rules_matrix.rules()) == {f"{kind}-{n}" for kind, most in counts.items() for n in range(1, most + 1)}


def test_every_rule_has_a_test_that_names_it() -> None:
    assert set(rules_matrix.rules()) - set(rules_matrix.tests()) == set()


def test_every_rule_is_named_where_the_code_obeys_it() -> None:
    assert set(rules_matrix.rules()) - set(rules_matrix.code()) == set()


def test_no_test_and_no_code_names_a_rule_that_is_not_on_a_page() -> None:
    assert {*rules_matrix.tests(), *rules_matrix.code()} <= set(rules_matrix.rules())


def test_the_page_is_up_to_date() -> None:
    assert rules_matrix.PAGE.read_text() == rules_matrix.page(), "run python -m tests.dealer.rules_matrix"
