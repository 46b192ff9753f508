"""A series: an agent, and the settings in which runs of this agent differ.

"DQN" and "DQN Pro", or in a study of target periods "DQN (period 2,000)", "DQN (period 8,000)".
Games, seeds and the protocol (protocol.py) never distinguish series.
"""

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxrl.config import RunConfig, flatten
from proxrl.errors import UserError
from proxrl.report.labels import labels
from proxrl.runs.record import Run
from proxrl.suites import presets

NAMES = {
    "dqn": "DQN",
    "dqn-pro": "DQN Pro",
    "dqn-pro-adaptive": "DQN Pro adaptive",
    "rainbow": "Rainbow",
    "rainbow-pro": "Rainbow Pro",
    "rainbow-pro-adaptive": "Rainbow Pro adaptive",
    "rainbow-full": "Full Rainbow",
    "rainbow-full-pro": "Full Rainbow Pro",
    "dqn-authors": "DQN (authors' code)",
    "dqn-authors-pro": "DQN Pro (authors' code)",
    "rainbow-authors": "Rainbow (authors' code)",
    "rainbow-authors-pro": "Rainbow Pro (authors' code)",
}
# the paper's colours (Figure 4): on paper, and lighter on a dark screen
COLOURS = {
    "dqn": ("#2b6cb0", "#6cb2f5"),
    "dqn-pro": ("#c53030", "#ff7b7b"),
    "dqn-pro-adaptive": ("#6b46c1", "#b794f4"),
    "rainbow": ("#2f855a", "#5fd39a"),
    "rainbow-pro": ("#d69e2e", "#f2c94c"),
    "rainbow-pro-adaptive": ("#b83280", "#f687b3"),
    "rainbow-full": ("#2c7a7b", "#5cc8cb"),
    "rainbow-full-pro": ("#c05621", "#f5a167"),
    "dqn-authors": ("#2c5282", "#90cdf4"),
    "dqn-authors-pro": ("#9b2c2c", "#feb2b2"),
    "rainbow-authors": ("#276749", "#9ae6b4"),
    "rainbow-authors-pro": ("#975a16", "#faf089"),
}
OTHERS = (
    ("#6b46c1", "#b794f4"),
    ("#b83280", "#f687b3"),
    ("#744210", "#d6a977"),
    ("#2c7a7b", "#5cc8cb"),
    ("#4a5568", "#b5bfcd"),
    ("#c05621", "#f5a167"),
)
DASHES = ("solid", "dash", "dot", "dashdot")
NOT_THE_AGENT = ("protocol.", "evaluation.", "checkpoint.", "logging.")
IDENTITY = ("agent", "env", "seed", "steps", "device", "threads")


@dataclass(frozen=True, eq=False)
class Series:
    """Runs that are repetitions of one another, over games and seeds."""

    name: str
    agent: str
    settings: dict[str, Any]  # all settings of the agent, by dotted name
    varied: tuple[str, ...]  # those in which series of this agent differ
    main: bool  # represents the agent: the study's headline, else its preset
    colour: str = "#000000"
    dark: str = "#ffffff"
    dash: str = "solid"

    @property
    def c(self) -> float:
        return float(self.settings["c"])

    @property
    def family(self) -> str:
        """The agent without the pull: "dqn" of dqn, dqn-pro and dqn-pro-adaptive."""
        return self.agent.removesuffix("-adaptive").removesuffix("-pro")


def agent_settings(config: RunConfig) -> dict[str, Any]:
    """Settings that distinguish agents of the same name; c is the effective one, however set."""
    flat = {
        name: value
        for name, value in flatten(config).items()
        if name not in IDENTITY and not name.startswith((*NOT_THE_AGENT, "proximal.c"))
    }
    del flat["proximal.pull_per_sync"]
    if config.target.rule == "polyak":
        del flat["target.period"], flat["target.period_unit"]
    else:
        del flat["target.tau"]
    return {**flat, "c": config.c}


def group(runs: Sequence[Run], headline: Sequence[RunConfig] = ()) -> dict[Series, list[Run]]:
    """Runs by series: DQN before DQN Pro before the Rainbows, the main series of an agent first.

    `headline`: configs whose series become the main ones of their agents.
    """
    groups: dict[Series, list[Run]] = {}
    present = {run.asked.agent for run in runs}
    strangers = sorted(present - set(NAMES))
    for agent in (*(name for name in NAMES if name in present), *strangers):
        colours = COLOURS.get(agent) or OTHERS[strangers.index(agent) % len(OTHERS)]
        own = [run for run in runs if run.asked.agent == agent]
        wanted = [agent_settings(config) for config in headline if config.agent == agent]
        groups |= _of_one_agent(agent, colours, own, wanted)
    return groups


def partner(series: Series, all_series: Sequence[Series]) -> Series | None:
    """The main series of the agent without the pull, to compare this main series with."""
    if not series.main or series.family == series.agent:
        return None
    return next((one for one in all_series if one.main and one.agent == series.family), None)


def other_differences(one: Series, other: Series) -> dict[str, tuple[Any, Any]]:
    """Settings besides the pull's own in which two series differ: name -> both values."""
    names = dict.fromkeys((*one.settings, *other.settings))
    both = {name: (one.settings.get(name), other.settings.get(name)) for name in names}
    return {
        name: (left, right)
        for name, (left, right) in both.items()
        if left != right and name != "c" and not name.startswith("proximal.")
    }


def _of_one_agent(
    agent: str, colours: tuple[str, str], runs: list[Run], headline: list[dict[str, Any]]
) -> dict[Series, list[Run]]:
    settings = [agent_settings(run.asked) for run in runs]
    names = dict.fromkeys(name for one in settings for name in one)
    # a setting that only one target rule has is implied by the rule
    varied = tuple(
        name for name in names if len({one[name] for one in settings if name in one}) > 1
    )
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for number, one in enumerate(settings):
        kinds.setdefault(tuple(one.get(name) for name in varied), []).append(number)
    preset = _preset(runs[0].asked) if varied else {}
    usual = tuple(preset.get(name) for name in varied)
    if usual not in kinds:  # then the one with the most runs represents the agent
        usual = max(kinds, key=lambda kind: len(kinds[kind]))
    named = (kind for kind, members in kinds.items() if settings[members[0]] in headline)
    usual = next(named, usual)
    order = sorted(kinds, key=lambda kind: (kind != usual, [_order(value) for value in kind]))
    by_kappa = all(run.asked.proximal.pull_per_sync is not None for run in runs)
    words = tuple("kappa" if name == "c" and by_kappa else name for name in varied)
    groups: dict[Series, list[Run]] = {}
    for place, kind in enumerate(order):
        first = kinds[kind][0]
        differs = labels(
            words, {**settings[first], "kappa": runs[first].asked.pull_per_sync}, preset
        )
        label = NAMES.get(agent, agent) + (f" ({differs})" if differs else "")
        light, dark = (_shade(colour, place, len(order)) for colour in colours)
        series = Series(
            label,
            agent,
            settings[first],
            varied,
            kind == usual,
            light,
            dark,
            DASHES[place % len(DASHES)],
        )
        groups[series] = [runs[number] for number in kinds[kind]]
    return groups


def _preset(config: RunConfig) -> dict[str, Any]:
    try:
        return agent_settings(presets.make_like(config))
    except UserError:  # an agent of another version of proxrl
        return {}


def _order(value: Any) -> tuple[int, float, str]:
    """Sort key: numbers by size, then strings by name, then missing values."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (2, 0.0, "") if value is None else (1, 0.0, str(value))


def _shade(colour: str, place: int, count: int) -> str:
    """The agent's colour for its main series, then darker and lighter shades of it."""
    if place == 0:
        return colour
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, light, full = colorsys.rgb_to_hls(red, green, blue)
    span = (place + 1) // 2 / (count // 2 + 1)
    light = light * (1 - 0.6 * span) if place % 2 else light + (0.72 - light) * span
    hue += 0.06 * place / count  # not as far as the colour of another agent
    turned = colorsys.hls_to_rgb(hue % 1, light, full * 0.85)
    return "#" + "".join(f"{round(255 * part):02x}" for part in turned)
