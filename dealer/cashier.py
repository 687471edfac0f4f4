"""Chips come from a cashier and go back to him. The ledger has two sides for every entry, so that it always balances.

`PlayMoney` is the default cashier: everybody is given so much once. Another one is another `Cashier`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

BANK: Final = "bank"
RAKE: Final = "rake"
_PLAYER: Final = "player:"


def wallet(player: str) -> str:
    """Return the name of a player's account."""
    return f"{_PLAYER}{player}"


def rack(table: str) -> str:
    """Return the name of a table's account: all chips that lie there."""
    return f"table:{table}"


class Transfer(NamedTuple):
    """So many cents from one account to another. ``amount`` is positive."""

    debit: str
    credit: str
    amount: int


class NotEnough(Exception):
    """The player has less than he wants to bring; nothing has moved. ``field`` and ``allowed`` as in a refusal."""

    def __init__(self, player: str, has: int) -> None:
        self.field = "amount_cents"
        self.allowed = f"must be at most {has}, what {player} has"
        super().__init__(f"{self.field}: {self.allowed}")


class OutOfBalance(Exception):
    """Money has appeared or vanished: nobody may be shown, or paid, anything of it."""


class Cashier(Protocol):
    """Who changes money for chips. The caller stores the transfers together with what they pay for, then posts them."""

    def brings(self, player: str, table: str, amount: int) -> list[Transfer]:
        """Return the transfers by which a player brings chips to a table. Raises NotEnough."""

    def takes(self, player: str, table: str, amount: int) -> list[Transfer]:
        """Return the transfers by which a player takes his chips from a table."""

    def post(self, transfers: Iterable[Transfer]) -> None:
        """Carry out transfers that are stored."""

    def load(self, balances: Mapping[str, int]) -> None:
        """Take the balances that are stored: at the start, and after a write of unknown outcome.

        Raises OutOfBalance.
        """


class Ledger:
    """Accounts and their balances, which add up to nothing. Raises OutOfBalance if they do not."""

    def __init__(self, balances: Mapping[str, int] | None = None) -> None:
        self._balances = Counter(balances or {})
        self.check()

    def balance(self, account: str) -> int:
        """Return what is in an account; the bank's is what it has given out, as a negative number."""
        return self._balances[account]

    def post(self, transfers: Iterable[Transfer]) -> None:
        """Carry out transfers."""
        for transfer in transfers:
            assert transfer.amount > 0, "money moves one way"
            self._balances[transfer.debit] -= transfer.amount
            self._balances[transfer.credit] += transfer.amount
        self.check()

    def check(self) -> None:
        """Raise OutOfBalance if the accounts do not add up to nothing, or one but the bank's is overdrawn."""
        if out := sum(self._balances.values()):
            raise OutOfBalance(f"the ledger does not balance: its accounts add up to {out} cents, not to 0")
        for name, amount in self._balances.items():
            if amount < 0 and name != BANK:
                raise OutOfBalance(f"the ledger does not balance: {name} is overdrawn by {-amount} cents")


class PlayMoney:
    """A cashier who gives every player ``grant`` cents the first time he asks for chips."""

    def __init__(self, grant: int, balances: Mapping[str, int] | None = None) -> None:
        self._grant = grant
        self.load(balances or {})

    def load(self, balances: Mapping[str, int]) -> None:
        """Take the balances that are stored; who has an account has had his grant."""
        self.ledger = Ledger(balances)
        self._known = {name.removeprefix(_PLAYER) for name in balances if name.startswith(_PLAYER)}

    def balance(self, player: str) -> int:
        """Return what a player has, his grant included."""
        return self.ledger.balance(wallet(player)) + (0 if player in self._known else self._grant)

    def brings(self, player: str, table: str, amount: int) -> list[Transfer]:
        """Return the transfers by which a player brings chips to a table; the first ones begin with his grant."""
        if self.balance(player) < amount:
            raise NotEnough(player, self.balance(player))
        grant = [] if player in self._known else [Transfer(BANK, wallet(player), self._grant)]
        return [*grant, Transfer(wallet(player), rack(table), amount)]

    def takes(self, player: str, table: str, amount: int) -> list[Transfer]:
        """Return the transfers by which a player takes his chips from a table."""
        return [Transfer(rack(table), wallet(player), amount)] if amount else []

    def post(self, transfers: Iterable[Transfer]) -> None:
        """Carry out transfers that are stored."""
        kept = list(transfers)
        self.ledger.post(kept)
        self._known.update(each.credit.removeprefix(_PLAYER) for each in kept if each.debit == BANK)
