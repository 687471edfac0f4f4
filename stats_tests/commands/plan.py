"""`stats_tests plan`."""

import math
from typing import Any, Final

import click

from stats_tests.battery import EXTENTS, Plan
from stats_tests.catalogue import Kind
from stats_tests.commands.output import json_option, print_json, print_table, result_table
from stats_tests.commands.sampling import PlanOptions, plan_options
from stats_tests.power import LIMITS, POWER, degrees_and_scale, items_to_detect, smallest_bias
from stats_tests.samples import binary_format, item_bytes

ITEMS_A_CPU_SECOND: Final = {Kind.BITS: 2_000_000, Kind.NUMBERS: 3_000_000, Kind.SHUFFLES: 150_000}
"""Roughly, for the estimate of time: bytes, numbers, decks of 52."""


class Percent(click.ParamType[float]):
    """A share, written 0.1% or 0.001, within a range."""

    name = "share"

    def __init__(self, least: float, most: float) -> None:
        """Take shares from `least` to `most`, both included."""
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share."""
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = math.nan
        if not self._least <= share <= self._most:
            allowed = f"from {self._least:g} to {self._most:g}"
            self.fail(f"{text}: must be a share {allowed}, written like 0.1% or 0.001", param, ctx)
        return share


# Within these bounds the distributions are computed without loss, and no number of items overflows.
DETECTABLE: Final = Percent(1e-9, 0.999)
POWERS: Final = Percent(0.5, 0.999999)
ALPHAS: Final = Percent(1e-15, 0.49)


@click.command()
@plan_options
@click.option(
    "--detect", type=DETECTABLE, help="Say how many items show a relative bias (root mean square) this large."
)
@click.option("--power", type=POWERS, default=POWER, show_default=True, help="With what chance.")
@click.option("--alpha", type=ALPHAS, default=0.01, show_default=True, help="At what significance.")
@json_option
def command(
    detect: float | None,
    power: float,
    alpha: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Say what a battery would do, before any data are read, and what it could see."""
    wanted = PlanOptions(**options)
    plan = wanted.plan(wanted.kind_by_options())
    document = {**plan.to_json(), "power": _power(plan, detect, power, alpha)}
    if as_json:
        print_json(document)
    else:
        _print(plan, document)


def _power(plan: Plan, detect: float | None, power: float, alpha: float) -> dict[str, Any]:
    setting = plan.setting
    drawn = EXTENTS[plan.battery][setting.kind].drawn
    items = drawn if detect is None else items_to_detect(setting, detect, alpha, power)
    return {
        "test": degrees_and_scale(setting)[2],
        "alpha": alpha,
        "power": power,
        "items": items,
        "bytes": items * item_bytes(binary_format(setting.kind, setting.size), setting.size),
        "cpu_minutes": round(items / ITEMS_A_CPU_SECOND[setting.kind] / 60, 2),
        "smallest_rms_relative_bias": smallest_bias(setting, items, alpha, power),
        "undetectable": list(LIMITS),
    }


def _print(plan: Plan, document: dict[str, Any]) -> None:
    setting, power = plan.setting, document["power"]
    size = "" if setting.kind is Kind.BITS else f" of {setting.size}"
    click.echo(f"battery {plan.battery}: {setting.kind}{size}, mode {setting.mode}, at least {plan.least} items")
    click.echo(f"decision: {document['decision']['rule']}; alpha {document['decision']['alpha']}")
    click.echo(f"escalation: {document['decision']['escalation']}")
    rows = [
        {
            "test": test["id"],
            "primary": test["primary"],
            "reason": test["not_applicable"] or f"from {test['least_items']} items; {test['null']}",
        }
        for test in document["tests"]
    ]
    print_table(result_table(rows))
    click.echo(
        f"{power['items']} items ({power['bytes']} bytes, about {power['cpu_minutes']} CPU minutes) show a relative "
        f"bias of {power['smallest_rms_relative_bias']:.3%} (root mean square) by {power['test']} with chance "
        f"{power['power']:.0%} at {power['alpha']:g}"
    )
    for limit in power["undetectable"]:
        click.echo(f"- {limit}")
