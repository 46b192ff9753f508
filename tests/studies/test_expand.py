"""The built-in studies against the paper: which runs, how many, with which settings."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from proxrl import presets
from proxrl.config import differences, flatten
from proxrl.errors import UserError
from proxrl.studies.command import StudyOptions, chosen_scale
from proxrl.studies.definition import BUILT_IN, load, parse
from proxrl.studies.expand import Job, expand
from proxrl.studies.listing import print_list
from proxrl.studies.scaling import carried_over
from proxrl.suites.minatar import MINATAR


def jobs_of(name: str, scale: str, **narrow: object) -> list[Job]:
    study = load(name)
    return expand(study, study.scales[scale], Path("runs"), **narrow)  # type: ignore[arg-type]


def of_variant(name: str, scale: str) -> dict[str, Job]:
    return {job.variant: job for job in jobs_of(name, scale)}


AUTHORS = ("authors", "authors-pro")
PAPER = {  # variants x games x 5 seeds
    "tune-c": (12, 6),
    "main": (4, 55),
    "distance": (2, 4),
    "period": (5, 4),
    "polyak": (5, 4),
    "anneal": (4, 4),
    "larger-c": (3, 8),
    "value-space": (5, 8),
    "control": (5, 4),
    "rules": (12, 4),
    "rainbow-kappa": (6, 4),
}


@pytest.mark.parametrize("name", PAPER)
def test_at_paper_scale_every_study_has_the_papers_size(name: str) -> None:
    variants, games = PAPER[name]
    jobs = jobs_of(name, "paper")
    assert len({job.variant for job in jobs}) == variants
    assert len({job.game for job in jobs}) == games
    assert {job.seed for job in jobs} == {0, 1, 2, 3, 4}, "Table 1"
    assert len(jobs) == variants * games * 5 == len({job.folder for job in jobs})
    assert all(job.config.steps * job.config.protocol.frame_skip == 120_000_000 for job in jobs)


def test_main_is_eleven_hundred_runs_of_the_presets_themselves() -> None:
    jobs = jobs_of("main", "paper")
    assert len(jobs) == 55 * 4 * 5 == 1_100
    for job in jobs:
        preset = presets.make(job.variant, job.config.env)
        allowed = {"seed", "threads", "logging.tensorboard"}
        assert set(differences(job.config, preset)) <= allowed


def test_games_that_the_paper_names() -> None:
    games = {name: {job.game for job in jobs_of(name, "paper")} for name in PAPER}
    assert games["anneal"] == {"NameThisGame", "Zaxxon", "BattleZone", "Assault"}
    first, second = {"WizardOfWor", "Gopher", "Boxing", "BeamRider"}, {"Asterix", "Breakout"}
    assert games["value-space"] == first | second | {"Gravitar", "SpaceInvaders"}
    assert all(chosen <= games["main"] for chosen in games.values())


def test_settings_that_the_paper_names() -> None:
    period = of_variant("period", "paper")
    assert [period[f"dqn-period-{n}"].config.target.period for n in (2000, 4000, 8000, 12000)] == [
        2000,
        4000,
        8000,
        12000,
    ]
    assert period["dqn-pro"].config.c == 0.2
    polyak = of_variant("polyak", "paper")
    for tau in ("0.05", "0.005", "0.0005"):
        target = polyak[f"dqn-polyak-tau-{tau}"].config.target
        assert (target.rule, target.tau) == ("polyak", float(tau))
    larger = of_variant("larger-c", "paper")
    assert [larger[f"rainbow-pro-c-{c}"].config.c for c in (0.05, 0.1)] == [0.05, 0.1]
    values = of_variant("value-space", "paper")
    rules = {name: job.config.proximal for name, job in values.items() if "values" in name}
    assert {rule.rule for rule in rules.values()} == {"values"}
    assert rules["dqn-values-all-actions"].actions == "all"
    assert rules["dqn-values-own-batch"].own_batch


def test_on_minatar_updates_per_sync_and_kappa_keep_the_papers_ratios() -> None:
    """The paper's DQN syncs every 2,000 updates, MinAtar's preset every 250: an eighth."""
    period = of_variant("period", "session")
    updates = {name: job.config.updates_per_sync for name, job in period.items()}
    assert updates == {
        "dqn-period-2000": 62,  # 62.5, to whole updates
        "dqn-period-4000": 125,
        "dqn-period-8000": 250,
        "dqn-period-12000": 375,
        "dqn-pro": 250,
    }
    assert period["dqn-period-8000"].config.target == MINATAR.base.target
    for here, there in zip(jobs_of("polyak", "session"), jobs_of("polyak", "paper"), strict=False):
        if here.config.target.rule == "polyak":
            assert here.config.target.tau * 250 == pytest.approx(there.config.target.tau * 2_000)
    for name in ("tune-c", "larger-c", "main", "period"):
        small, large = of_variant(name, "session"), of_variant(name, "paper")
        for variant, job in small.items():
            if job.config.updates_per_sync == 62:
                continue
            assert job.config.pull_per_sync == pytest.approx(large[variant].config.pull_per_sync)
    anneal = of_variant("anneal", "session")["dqn-anneal-tenth"].config.learner
    assert anneal.annealed_rate == pytest.approx(anneal.learning_rate / 10)


@pytest.mark.parametrize("scale", ["smoke", "session", "laptop", "paper"])
def test_the_control_is_a_share_of_the_presets_step_size_in_every_suite(scale: str) -> None:
    for name in ("control", "rules"):
        variants = of_variant(name, scale)
        alpha = variants["dqn"].config.learner.learning_rate
        for share in ("0.5", "0.65", "0.8"):
            config = variants[f"dqn-alpha-{share}"].config
            assert config.learner.learning_rate == pytest.approx(float(share) * alpha)
            assert config.pull_per_sync == 0.0
            assert set(differences(config, variants["dqn"].config)) == {"learner.learning_rate"}


@pytest.mark.parametrize("scale", ["smoke", "session", "laptop", "paper"])
def test_the_study_of_rules_has_every_rule_and_kappa(scale: str) -> None:
    variants = {name: job.config for name, job in of_variant("rules", scale).items()}
    for kappa in ("0.25", "0.5", "1"):
        pulled = variants[f"dqn-pro-kappa-{kappa}"]
        assert pulled.pull_per_sync == pytest.approx(float(kappa))
    rules = {name: config.proximal.rule for name, config in variants.items()}
    assert rules["dqn-scheduled"] == "scheduled"
    assert rules["dqn-pro-adaptive"] == "adaptive"
    assert rules["dqn-pro-adaptive-layers"] == "adaptive-layers"
    for rule in ("accelerated", "metric"):
        assert rules[f"dqn-pro-{rule}"] == rule
        changed = differences(variants[f"dqn-pro-{rule}"], variants["dqn-pro-kappa-1"])
        assert set(changed) == {"proximal.rule"}
    adaptive, dqn = variants["dqn-pro-adaptive"], variants["dqn"]
    assert set(differences(adaptive, dqn)) == {"agent", "proximal.rule"}
    updates = (adaptive.steps - adaptive.replay.warmup_steps) / 4
    warmup = adaptive.proximal.adaptive.warmup_updates
    assert warmup + adaptive.updates_per_sync < updates, "the rule acts"
    assert variants["dqn-scheduled"].proximal.scheduled.steps <= dqn.steps


def test_what_is_carried_over_meets_the_preset_exactly() -> None:
    """0.2 on Atari is exactly 0.0625 on MinAtar, and 0.8 is the preset's 0.25."""
    tuned = of_variant("tune-c", "session")
    assert tuned["dqn-pro-c-0.2"].config.c == 0.0625
    assert tuned["dqn-pro-c-0.8"].config.c == presets.make("dqn-pro", "MinAtar/Asterix-v1").c
    assert tuned["rainbow-pro-c-0.05"].config.c == 0.025
    values = {"proximal.rule": "values", "proximal.c": 1.0}
    assert carried_over(values, "dqn", "atari", "MinAtar/Asterix-v1") == values


@pytest.mark.parametrize("scale", ["smoke", "session", "laptop", "paper"])
def test_the_headline_of_a_grid_of_c_is_the_papers_pull_at_every_scale(scale: str) -> None:
    """kappa = 1 and 2.5, even if the preset has another."""
    tuned, larger = of_variant("tune-c", scale), of_variant("larger-c", scale)
    pulls = [tuned[name].config.pull_per_sync for name in load("tune-c").headline]
    assert pulls == pytest.approx([1.0, 2.5])
    pulls = [larger[name].config.pull_per_sync for name in load("larger-c").headline]
    assert pulls == pytest.approx([2.5])


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "pmpi"])
@pytest.mark.parametrize("scale", ["smoke", "session", "laptop", "paper"])
def test_every_agent_with_several_variants_has_a_main_one(name: str, scale: str) -> None:
    """Given by the headline, or else the preset: never by the order of folders."""
    headline = load(name).headline
    agents: dict[str, dict[str, Job]] = {}
    for variant, job in of_variant(name, scale).items():
        agents.setdefault(job.config.agent, {})[variant] = job
    for agent, jobs in agents.items():
        preset = presets.make(agent, next(iter(jobs.values())).config.env)
        usual = [
            variant
            for variant, job in jobs.items()
            if (job.config.c, job.config.target, job.config.learner, job.config.proximal.rule)
            == (preset.c, preset.target, preset.learner, preset.proximal.rule)
        ]
        assert len(jobs) == 1 or len(set(jobs) & set(headline)) == 1 or len(usual) == 1


def test_classic_control_is_carried_over_by_the_same_rule() -> None:
    carried = carried_over(
        {"target.period": 4_000, "target.tau": 0.0005, "proximal.c": 0.2},
        "dqn-pro",
        "atari",
        "CartPole-v1",
    )
    assert carried == {"target.period": 128, "target.tau": 0.0078125, "proximal.c": 0.064}


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "pmpi"])
@pytest.mark.parametrize("scale", ["smoke", "session", "laptop", "paper"])
def test_every_run_is_unique_and_sets_its_threads(name: str, scale: str) -> None:
    jobs = jobs_of(name, scale)
    assert len({job.config for job in jobs}) == len(jobs), "no variant is another by accident"
    threads = 2 if (name, scale) == ("dopamine-check", "session") else 1
    what = "part of the bits: not the machine's to say"
    assert {job.config.threads for job in jobs} == {threads}, what
    protocol = [
        {k: v for k, v in flatten(job.config).items() if k.startswith(("protocol", "evaluation"))}
        for job in jobs
    ]
    assert all(one == protocol[0] for one in protocol), "one report can hold them all"


def test_selecting_runs_keeps_the_order_and_rejects_unknown_names() -> None:
    jobs = jobs_of("main", "session", games=["Breakout"], seeds=[2, 0], only=["rainbow", "dqn"])
    assert [job.name for job in jobs] == [
        "dqn/Breakout/seed0",
        "rainbow/Breakout/seed0",
        "dqn/Breakout/seed2",
        "rainbow/Breakout/seed2",
    ]
    assert jobs[0].folder == Path("runs/dqn/Breakout/seed0")
    with pytest.raises(UserError, match="Pong is not a game of main at scale session"):
        jobs_of("main", "session", games=["Pong"])


def test_a_variant_may_run_on_some_of_the_games_only() -> None:
    jobs = jobs_of("dopamine-check", "session")
    assert [job.name for job in jobs] == [
        "dqn/KungFuMaster/seed0",
        "dqn-pro/KungFuMaster/seed0",
        "rainbow/Freeway/seed0",
        "rainbow-pro/Freeway/seed0",
    ]
    assert [job.name for job in jobs_of("dopamine-check", "session", games=["Freeway"])] == [
        "rainbow/Freeway/seed0",
        "rainbow-pro/Freeway/seed0",
    ]
    text = "title = 'x'\n[variants.a]\npreset = 'dqn'\ngames = ['Asterix']"
    study = parse("mine", text)
    with pytest.raises(UserError, match="mine at scale smoke: none of a's games: Asterix"):
        expand(study, study.scales["smoke"], Path("runs"))


def test_the_check_has_dopamines_settings_and_the_papers_pull() -> None:
    for job in jobs_of("dopamine-check", "session"):
        config = job.config
        assert (config.replay.batch_size, config.replay.capacity) == (32, 1_000_000)
        assert (config.learner.learning_rate, config.learner.adam_epsilon) == (6.25e-5, 1.5e-4)
        assert (config.target.period, config.learner.update_period_steps) == (8_000, 4)
        assert (config.network.kind, config.protocol.sticky_actions) == ("nature-same", 0.25)
        assert config.evaluation.training_period_steps == 250_000, "one iteration of Dopamine's"
        kappa = config.learner.learning_rate / config.proximal.c * 2_000
        expected = {"dqn": 0, "rainbow": 0, "dqn-pro": 1.0, "rainbow-pro": 2.5}[job.variant]
        assert kappa == pytest.approx(expected)


def test_the_smaller_scales_of_main() -> None:
    assert len(jobs_of("main", "session")) == 4 * 2 * 3
    assert len(jobs_of("main", "laptop")) == 4 * 5 * 5


def test_a_study_of_the_authors_configuration_is_for_atari(tmp_path: Path) -> None:
    file = tmp_path / "authors.toml"
    variants = [f'[variants.{name}]\npreset = "rainbow-{name}"' for name in AUTHORS]
    file.write_text("\n".join(['title = "the authors\' configuration"', *variants]))
    study = load(str(file))
    jobs = expand(study, study.scales["paper"], tmp_path, games=["Asterix"], seeds=[0])
    for job, agent in zip(jobs, AUTHORS, strict=True):
        preset = presets.make(f"rainbow-{agent}", "ALE/Asterix-v5")
        changed = set(differences(job.config, preset))
        assert changed <= {"seed", "threads", "logging.tensorboard"}
    with pytest.raises(
        UserError, match=r"^suite minatar has no preset rainbow-authors: choose from [^\n]*$"
    ):
        expand(study, study.scales["smoke"], tmp_path)


def test_two_games_with_one_folder_are_refused_before_anything_is_made() -> None:
    text = (
        'title = "x"\n[variants.dqn]\npreset = "dqn"\n[scales.mine]\nenv = "{game}"\n'
        'games = ["CartPole-v1", "lab:Pole-v0", "lab/Pole-v0"]\nseeds = [0]\nsteps = 1000\n'
    )
    study = parse("two", text)
    with pytest.raises(UserError, match=r"lab:Pole-v0 and lab/Pole-v0 have the same folder name"):
        expand(study, study.scales["mine"], Path("runs"))


@pytest.mark.parametrize("wanted", [False, True])
def test_tensorboard_can_be_switched_on_for_a_built_in_scale(wanted: bool) -> None:
    study = load("main")
    scale = chosen_scale(StudyOptions("main", "smoke", tensorboard=wanted), study)
    jobs = expand(study, scale, Path("study"))
    assert {job.config.logging.tensorboard for job in jobs} == {wanted}


def test_the_list_of_studies_fits_a_narrow_terminal() -> None:
    screen = io.StringIO()
    print_list(Console(file=screen, width=80))
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "main (figure 3, 4 left, 7-10)" in lines
    assert "  runs: 8 smoke, 24 session, 24 tune, 100 laptop, 1,100 paper" in lines
