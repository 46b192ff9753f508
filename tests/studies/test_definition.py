"""Study files are read strictly: errors name the mistake and suggest the closest match."""

import math
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from proxrl import cli
from proxrl.errors import UserError
from proxrl.studies.definition import BUILT_IN, DATA, load, parse

SMALL = """
title = "small"

[variants.dqn]
preset = "dqn"
"""


def test_every_file_in_the_package_is_a_study_that_can_be_read() -> None:
    there = {path.name.removesuffix(".toml") for path in DATA.iterdir()}
    assert there - {"scales", "games"} == set(BUILT_IN)
    for name in BUILT_IN:
        assert list(load(name).scales) == ["smoke", "session", "tune", "laptop", "paper"]
        reported = {
            s for scale in load(name).scales.values() if scale.name != "tune" for s in scale.seeds
        }
        assert not reported & set(load(name).scales["tune"].seeds)


def test_a_grid_is_one_variant_for_each_point_with_its_values_in_the_name() -> None:
    study = parse(
        "mine",
        SMALL
        + """
[variants.p]
preset = "dqn-pro"
target.rule = "polyak"
grid.target.tau = [0.5, 0.25]
grid.proximal.c = [1, inf]
""",
    )
    by_name = {variant.name: variant.settings for variant in study.variants}
    assert by_name["p-tau-0.5-c-1"] == {
        "target.rule": "polyak",
        "target.tau": 0.5,
        "proximal.c": 1.0,
    }
    assert by_name["p-tau-0.25-c-inf"]["proximal.c"] == math.inf
    assert len(by_name) == 5


def test_a_grid_may_have_lists_and_words() -> None:
    grid = "grid.network.hidden = [[32], [64, 64]]\ngrid.network.kind = ['mlp', 'my_nets:wide']"
    study = parse("mine", SMALL + grid)
    assert [variant.name for variant in study.variants] == [
        "dqn-hidden-32-kind-mlp",
        "dqn-hidden-32-kind-my_nets-wide",
        "dqn-hidden-64x64-kind-mlp",
        "dqn-hidden-64x64-kind-my_nets-wide",
    ]
    assert study.variants[-1].settings["network.hidden"] == (64, 64)


def test_games_of_the_emulator_outside_the_paper_can_be_named() -> None:
    study = parse("mine", SMALL + "[scales.paper]\ngames = ['Centipede', 'Pong']")
    assert study.scales["paper"].games == ("Centipede", "Pong")
    with pytest.raises(UserError, match="unknown game Centipade; did you mean"):
        parse("mine", SMALL + "[scales.paper]\ngames = ['Centipade']")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL.strip(), encoding="utf-8-sig")
    assert load(str(tmp_path / "mine.toml")).title == "small"


def test_a_custom_scale_and_an_override_of_a_default_one() -> None:
    study = parse(
        "mine",
        SMALL
        + """
[scales.session]
seeds = [7]
replay.capacity = 5_000

[scales.pole]
env = "{game}"
games = ["CartPole-v1"]
seeds = [0]
steps = 1_000
""",
    )
    session = study.scales["session"]
    assert (session.seeds, session.steps) == ((7,), 500_000), "what is not said stays as usual"
    assert session.settings["replay.capacity"] == 5_000
    assert session.settings["threads"] == 1
    assert study.scales["pole"].games == ("CartPole-v1",)


def test_a_headline_is_variants_by_their_names_in_the_grid() -> None:
    grid = "\n[variants.p]\npreset = 'dqn-pro'\ngrid.proximal.c = [0.1, 0.2]\n"
    assert parse("mine", SMALL + grid).headline == ()
    assert parse("mine", "headline = ['p-c-0.2']" + SMALL + grid).headline == ("p-c-0.2",)


MISTAKES = [
    ("titel = 1", "unknown key titel; did you mean title?"),
    ("[variants.x]\npreset = 'dqn'", "title is missing"),
    ("title = 'x'", "either [variants.NAME] tables or a [plan]"),
    (SMALL + "plan.seeds = 3", "unknown key plan"),  # it belongs to the variant's table here
    ("title = 'x'\nplan.sedes = 3", "unknown key sedes in [plan]; did you mean seeds?"),
    ("title = 'x'\nplan.seeds = 'many'", "invalid plan.seeds 'many': must be an integer"),
    (SMALL + "proximal.cc = 1", "variants.dqn: unknown key proximal.cc; did you mean proximal.c?"),
    (SMALL + "seed = 3", "seed cannot be set here: it is given by the scale's seeds"),
    (SMALL + "target.period = 'long'", "invalid target.period 'long': must be an integer"),
    (SMALL + "target.period = 1.5", "must be an integer"),
    (SMALL + "target.rule = 'sometimes'", "must be periodic or polyak"),
    (SMALL + "learner.double = 1", "must be true or false"),
    (SMALL + "target = 3", "unknown key target"),
    (SMALL + "network.hidden = [1, 'x']", "must be a list, each item an integer"),
    (SMALL + "grid.target.period = 5", "grid.target.period must be a list"),
    (SMALL + "games = 'Breakout'", "variants.dqn: games must be a list of names"),
    (SMALL + "games = [1]", "variants.dqn: games must be a list of names"),
    (SMALL + "[variants.'a/b']\npreset = 'dqn'", "is not a valid folder name"),
    ("title = 'x'\n[variants.a]\npreset = 'dqm'", "unknown preset dqm; did you mean dqn?"),
    ("title = 'x'\n[variants.a]\ngrid.x = [1]", "preset is missing"),
    ("title = 'x'\nvariants.a = 3", "variants.a must be a table: [variants.a]"),
    (SMALL + "[scales.smoke]\ngames = ['Brekout']", "unknown game Brekout; did you mean Breakout?"),
    (SMALL + "[scales.smoke]\ngames = []", "games must be a list of names or"),
    (SMALL + "[scales.smoke]\nseeds = [0, 0]", "duplicate game or seed"),
    (SMALL + "[scales.smoke]\nseeds = 3", "seeds must be a list of integers"),
    (SMALL + "[scales.smoke]\nstep = 3", "scales.smoke: unknown key step; did you mean steps?"),
    (SMALL + "[scales.smoke]\nenv = 'CartPole-v1'", "must contain {game}"),
    (SMALL + "[scales.new]\nenv = '{game}'", "scales.new: games must be a list"),
    (SMALL + "[variants.dqn]", "is not valid TOML"),
    (SMALL + f"steps = {'9' * 5000}", "is not valid TOML: Exceeds the limit"),
    (SMALL + f"steps = {'[' * 100_000}", "is not valid TOML: "),
    (SMALL + f"proximal.c = {'9' * 400}", "must be a number"),
    (SMALL + "[scales.smoke]\nagent = 'dqn'", "scales.smoke: agent cannot be set here"),
    (SMALL + "[scales.'a/b']\nseeds = [0]", "scales.a/b is not a valid folder name"),
    (
        SMALL + "[variants.report]\npreset = 'dqn'",
        "invalid name variants.report: reserved for the report's folder",
    ),
    ("written_for = 'atary'\n" + SMALL, "did you mean atari?"),
    ("headline = ['dqm']" + SMALL, "headline: unknown variant dqm; did you mean dqn?"),
    ("headline = 'dqn'" + SMALL, "headline must be a list of variants"),
    ("headline = [1]" + SMALL, "headline must be a list of variants"),
    ("headline = ['dqn', 'dqn']" + SMALL, "headline: dqn and dqn are both dqn: keep one"),
    (
        "headline = ['dqn', 'b']" + SMALL + "[variants.b]\npreset = 'dqn'\ntarget.period = 9",
        "headline: dqn and b are both dqn: keep one",
    ),
    (
        "title = 'x'\nheadline = ['dqn']\nplan.seeds = 3",
        "headline is only for studies with variants",
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_in_a_file_is_named_with_the_nearest(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse("mine", text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.toml")
    assert "\n" not in str(caught.value)


COMMANDS = [
    (["study"], "missing argument: STUDY, one of pmpi"),
    (["study", "mian"], "unknown study mian; did you mean main?"),
    (["study", "nowhere.toml"], "cannot read nowhere.toml: No such file"),
    (["study", "main", "--scale", "lapto"], "unknown scale lapto; did you mean laptop?"),
    (["study", "main", "--games", "Brekout"], "Brekout is not a game of main at scale session"),
    (
        ["study", "main", "--seeds", "9"],
        "9 is not a seed of main at scale session: choose from 0, 1",
    ),
    (["study", "main", "--only", "dqn-por"], "did you mean dqn-pro?"),
    (["study", "main", "--jobs", "0"], "at least 1"),
    (["study", "main", "--gpus", "1"], "for --executor ray"),
    (["study", "main", "--gpus", "nan", "--executor", "ray"], "a share of one GPU"),
    (["study", "main", "--gpus", "1.5", "--executor", "ray"], "a share of one GPU"),
    (["study", "main", "--scale", "smoke", "--export", "/dev/null/x"], "cannot export to"),
    (["study", "main", "--sacle", "smoke"], "did you mean --scale?"),
    (["study", "pmpi", "--games", "Pong"], "has no runs"),
    (["study", "pmpi", "--executor", "ray"], "invalid --executor: pmpi is a planning study"),
    (["study", "main", "--folder", "/dev/null/x", "--scale", "smoke"], "cannot write to /dev/null"),
    (
        ["study", "main", "--executor", "ray", "--address", "127.0.0.1:1", "--scale", "smoke"],
        "no Ray cluster at --address 127.0.0.1:1",
    ),
    (
        ["study", "main", "--executor", "ray", "--address", "ray://x:1", "--scale", "smoke"],
        "run this command on a node",
    ),
    (
        ["study", "main", "--executor", "ray", "--address", "there", "--scale", "smoke"],
        "must be auto or HOST:PORT",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), COMMANDS)
def test_a_mistake_on_the_command_line_is_one_line_and_exit_2(
    arguments: list[str],
    message: str,
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(str(tmp_path))
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    error = capsys.readouterr().err.strip()
    assert left.value.code == 2, error
    assert message in error
    assert "\n" not in error


def test_something_else_at_a_clusters_address_is_noticed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections but never answers
        address = f"127.0.0.1:{server.getsockname()[1]}"
        words = ["study", "main", "--scale", "smoke", "--executor", "ray", "--address", address]
        with pytest.raises(SystemExit) as left:
            cli.main(words)
    assert left.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.endswith(f"no Ray cluster at --address {address}: something else listens there")
    assert list(tmp_path.iterdir()) == [], "nothing was written"


def test_a_dry_run_of_planning_finds_what_the_run_would_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for mistake, message in (
        ('plan.env = "FrozenLake9x9-v1"', "unknown environment FrozenLake9x9-v1"),
        ("plan.seeds = -3", "seeds must be at least 1"),
    ):
        Path("mine.toml").write_text(f'title = "x"\n{mistake}\n')
        with pytest.raises(SystemExit) as left:
            cli.main(["study", "mine.toml", "--dry-run"])
        assert left.value.code == 2
        assert message in capsys.readouterr().err
    Path("mine.toml").write_text('title = "x"\nplan.seeds = 2\nplan.iterations = 3\n')
    cli.main(["study", "mine.toml", "--dry-run"])
    assert "with iterations = 3, seeds = 2" in capsys.readouterr().out
    assert not Path("runs").exists()


def test_planning_is_exported_as_runs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text('title = "x"\nplan.seeds = 2\nplan.iterations = 3\n')
    cli.main(["study", "mine.toml", "--folder", "here", "--export", "there"])
    names = {"figure1.png", "figure1.svg", "figure1.csv", "study.json"}
    assert names <= {path.name for path in Path("here").iterdir()}
    assert names == {path.name for path in Path("there").iterdir()}


def test_help_and_list_need_no_torch() -> None:
    code = "import sys, proxrl.cli as c\nc.main(['study', '--list'])\n"
    code += "assert 'torch' not in sys.modules and 'ray' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1,100" in done.stdout
