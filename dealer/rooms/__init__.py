"""The houses: each room is its rule page as data (`<room>.py`) beside the page in our own words (`<room>.md`)."""

from collections.abc import Mapping
from typing import Final

from dealer.house_rules import HouseRules
from dealer.rooms.casino_club import CASINO_CLUB
from dealer.rooms.limit_stud import LIMIT_STUD, LIMIT_STUD_HIGH_LOW
from dealer.rooms.poker777 import POKER777
from dealer.rooms.pokerkings import POKERKINGS

GAMES: Final[Mapping[str, HouseRules]] = {
    rules.name: rules for rules in (CASINO_CLUB, POKER777, LIMIT_STUD, LIMIT_STUD_HIGH_LOW, POKERKINGS)
}
