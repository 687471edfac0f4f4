"""Tests on raw bits: SP 800-22, structure over long ranges, SP 800-90B, AIS 20/31."""

from typing import Final

from stats_tests.bits.ais_31 import AIS_31
from stats_tests.bits.health import HEALTH
from stats_tests.bits.sp800_22 import SP800_22
from stats_tests.bits.structure import STRUCTURE
from stats_tests.catalogue import Entry

ENTRIES: Final[tuple[Entry, ...]] = SP800_22 + STRUCTURE + HEALTH + AIS_31
