"""The report command: files, reproducible bytes, one-line errors."""

import contextlib
import csv
import errno
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from proxrl import cli, presets
from proxrl.errors import UserError
from proxrl.report.command import make_report
from proxrl.report.output import write_files
from proxrl.report.page import ALPHABET, _packed
from tests.report.synthetic import preset, write_run, write_study

GAMES = ("Alien", "AirRaid", "Breakout", "Pong", "Qbert")
IMPOSSIBLE_FOR_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five games, four agents, three seeds; one run corrupt, one failed, one missing."""
    root = tmp_path_factory.mktemp("module") / "study"
    write_study(root, games=GAMES, seeds=range(3), steps=2_000_000, period=100_000)
    with open(root / "dqn_Pong_1" / "metrics.jsonl", "a") as file:
        file.write("not json\n")
    failed = root / "dqn-pro_Qbert_2"
    rows = (failed / "metrics.jsonl").read_text().splitlines(keepends=True)
    (failed / "metrics.jsonl").write_text("".join(rows[:7]))
    (failed / "failure.txt").write_text("the disk is full <here> & there\n")
    shutil.rmtree(root / "rainbow_Alien_0")
    return root


@pytest.fixture(scope="module")
def written(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    make_report(runs, out, baselines="dopamine", resamples=300)
    return out


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_figure_as_png_svg_and_csv_one_page_and_the_scores(written: Path) -> None:
    figures = {path.name for path in (written / "figures").iterdir()}
    names = {
        *("aggregates", "median_curve", "gain_dqn-pro", "gain_rainbow-pro", "differences"),
        *("improvement", "profiles", "sync_distances", "sync_ratio", "learning_curves"),
    }
    assert figures == {f"{name}.{kind}" for name in names for kind in ("png", "svg", "csv")}
    assert sorted(path.name for path in written.iterdir()) == [
        ".proxrl-report.json",
        "comparisons.csv",
        "figures",
        "index.html",
        "scores.csv",
    ]


def test_comparisons_csv_has_every_pair_and_its_p_values_agree_with_the_intervals(
    tmp_path: Path,
) -> None:
    levels = {"dqn": 1.0, "dqn-pro": 2.0, "rainbow": 1.0, "rainbow-pro": 1.01}
    for agent, level in levels.items():
        for seed in range(5):
            often = {"evaluation.period_steps": 1000}
            config = preset(agent, "MinAtar/Breakout-v1", often, seed=seed, steps=4000)
            write_run(
                tmp_path / f"{agent}{seed}",
                config,
                lambda step, x=level + seed / 9: [x, x],
                sync_distance=(0.5 if agent == "dqn-pro" else 1.0) * 1.1**seed,
            )
    make_report(tmp_path, resamples=300)
    with (tmp_path / "report" / "comparisons.csv").open() as file:
        rows = {(row["x"], row["y"], row["measure"]): row for row in csv.DictReader(file)}
    measures = dict.fromkeys(("final score, x - y", "whole curve, x - y"), 0.0)
    measures["P(x > y)"] = 0.5
    for measure, border in measures.items():
        apart, same = rows["DQN Pro", "DQN", measure], rows["Rainbow Pro", "Rainbow", measure]
        assert float(apart["p"]) <= 0.05 < float(same["p"])
        assert float(apart["low"]) > border
        assert float(same["low"]) <= border <= float(same["high"])
        assert apart["runs"] == "5"
    smaller, same = (
        rows[pro, base, "target updates, x / y"]
        for pro, base in (("DQN Pro", "DQN"), ("Rainbow Pro", "Rainbow"))
    )
    assert float(smaller["value"]) == pytest.approx(0.5)
    assert float(smaller["p"]) <= 0.05
    assert float(smaller["high"]) < 1.0
    assert float(same["value"]) == 1.0
    assert (smaller["games"], smaller["runs"]) == ("1", "5")


def test_same_runs_same_bytes(written: Path, runs: Path, tmp_path: Path) -> None:
    """In another process, from a copy of the runs elsewhere, with another hash seed."""
    copy = tmp_path / "elsewhere" / "study"
    shutil.copytree(runs, copy)
    arguments = ["report", str(copy), "--out", str(tmp_path / "out")]
    arguments += ["--baselines", "dopamine", "--resamples", "300"]
    subprocess.run(
        [sys.executable, "-m", "proxrl", *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert digests(tmp_path / "out") == digests(written)


def test_other_runs_other_bytes(written: Path, runs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "study"
    shutil.copytree(runs, copy)
    shutil.rmtree(copy / "rainbow_Alien_1")
    make_report(copy, baselines="dopamine", resamples=300)
    before, after = digests(written), digests(copy / "report")
    assert before.keys() == after.keys()
    for name in ("index.html", "scores.csv", "figures/learning_curves.png"):
        assert before[name] != after[name]


def test_scores_csv_has_every_run_and_its_protocol(written: Path) -> None:
    with (written / "scores.csv").open() as file:
        rows = {row["run"]: row for row in csv.DictReader(file)}
    assert len(rows) == 5 * 4 * 3 - 1
    assert rows["dqn_Pong_1"]["status"] == "corrupt"
    assert rows["dqn_Pong_1"]["final_score"] == ""
    assert "line 21" in rows["dqn_Pong_1"]["note"]
    assert rows["dqn-pro_Qbert_2"]["status"] == "failed"
    assert rows["dqn_AirRaid_0"]["final_scaled"] == ""
    good = rows["dqn_Alien_0"]
    assert good["sticky_actions"] == "0.25"
    low, high = float(good["scale_low"]), float(good["scale_high"])
    scaled = (float(good["final_score"]) - low) / (high - low)
    assert float(good["final_scaled"]) == pytest.approx(scaled, rel=1e-6)


def test_the_page_is_self_contained_and_shows_what_is_wrong(written: Path) -> None:
    page = (written / "index.html").read_text()
    own = page
    assert 'src="' not in own
    for name in ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http-equiv"):
        own = own.replace(name, "")  # XML namespaces, not requests
    assert "http" not in own
    assert len(page) < 1_000_000
    assert "the disk is full &lt;here&gt; &amp; there" in own
    assert "metrics.jsonl line 21: not valid JSON" in own
    assert "not found, although similar runs exist" in own
    assert "1 failed and 1 corrupt" in own
    assert "AirRaid has no published human score" in own
    assert "training returns, batch 32, up to 200M frames" in own
    assert own.count("<tr><td>C") == 66
    assert str(written) not in page
    data = json.loads(own.split('id="data">', 1)[1].split("</script>", 1)[0])
    assert [one["name"] for one in data["series"]] == [
        *("DQN", "DQN Pro", "Rainbow", "Rainbow Pro"),
        *("Dopamine DQN (legacy)", "Dopamine DQN (Adam, squared error)"),
        "Dopamine DQN (JAX, Adam)",
        *("Dopamine Rainbow (legacy)", "Dopamine Rainbow (JAX)"),
    ]
    assert all(len(one["games"]) == 5 for one in data["series"])
    assert len(data["x"]) == 20


def test_the_page_and_the_file_hold_the_same_figure(written: Path) -> None:
    page = (written / "index.html").read_text()
    for path in (written / "figures").glob("*.svg"):
        assert (path.read_text() in page) == (path.stem != "learning_curves"), path
        assert "style=" not in path.read_text()


def test_curves_are_packed_to_a_thousandth_of_their_range() -> None:
    values = np.array([3.0, np.nan, -1.0, 7.25, 0.5])
    low, high, text = _packed(values)
    assert (low, high, text[2:4]) == (-1.0, 7.25, "  ")
    codes = [64 * ALPHABET.find(text[at]) + ALPHABET.find(text[at + 1]) for at in (0, 4, 6, 8)]
    back = [low + (high - low) * code / 4095 for code in codes]
    np.testing.assert_allclose(back, values[[0, 2, 3, 4]], atol=8.25 / 4095)


def test_claims_are_shown_for_atari_alone(tmp_path: Path) -> None:
    cartpole(tmp_path)
    make_report(tmp_path, resamples=20)
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Not checked: the paper’s claims are about Atari" in page
    assert "<tr><td>C" not in page


def test_figures_of_an_earlier_report_do_not_stay(tmp_path: Path) -> None:
    settings = {"evaluation.period_steps": 1000}
    for agent in ("dqn", "dqn-pro"):
        for seed in (0, 1):
            config = preset(agent, "CartPole-v1", settings, steps=3000, seed=seed)
            run = tmp_path / agent / str(seed)
            write_run(run, config, lambda step, seed=seed: [step / 100, seed])
    make_report(tmp_path, resamples=20)
    assert (tmp_path / "report" / "figures" / "improvement.png").exists()
    assert not (tmp_path / "report" / "figures" / "gain_dqn-pro.png").exists()  # raw returns
    shutil.rmtree(tmp_path / "dqn")
    make_report(tmp_path, resamples=20)
    assert not (tmp_path / "report" / "figures" / "improvement.png").exists()


@pytest.mark.parametrize("name", ["index.html", "scores.csv", "figures/learning_curves.svg"])
def test_a_file_of_someone_else_is_refused(name: str, tmp_path: Path, capsys) -> None:
    cartpole(tmp_path / "runs")
    out = tmp_path / "site"
    (out / "figures").mkdir(parents=True)
    (out / name).write_text("mine")
    (out / "figures" / "photo.png").write_bytes(b"mine too")
    before = digests(out)
    code, _, err = run_cli(capsys, str(tmp_path / "runs"), "--out", str(out))
    assert code == 2
    assert f"{out / name} exists and was not made by `proxrl report`" in err
    assert "\n" not in err
    assert digests(out) == before


def test_only_what_the_manifest_names_is_removed(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "site"
    for agent in ("dqn", "dqn-pro"):
        config = preset(agent, "CartPole-v1", {"evaluation.period_steps": 1000}, steps=3000)
        write_run(runs / agent, config, lambda step: [step / 100, 5.0])
    make_report(runs, out, resamples=20)
    (out / "figures" / "photo.png").write_bytes(b"mine")
    (out / "figures" / "improvement.svg").write_text("changed by hand")
    (out / "notes.txt").write_text("mine")
    shutil.rmtree(runs / "dqn")
    make_report(runs, out, resamples=20)
    left = {path.name for path in (out / "figures").iterdir()}
    assert {"photo.png", "improvement.svg", "learning_curves.svg"} <= left
    assert not {"improvement.png", "improvement.csv"} & left
    assert (out / "notes.txt").exists()


def test_a_manifest_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    cartpole(tmp_path / "runs")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    out = tmp_path / "site"
    out.mkdir()
    digest = hashlib.sha256(b"mine").hexdigest()
    names = {"../victim": digest, "figures/../../victim": digest, str(victim): digest}
    (out / ".proxrl-report.json").write_text(json.dumps(names))
    make_report(tmp_path / "runs", out, resamples=20)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["report", "report/figures"])
def test_links_in_a_folder_of_someone_else_are_not_followed(name: str, tmp_path: Path, capsys):
    cartpole(tmp_path / "runs")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "runs" / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    code, _, err = run_cli(capsys, str(tmp_path / "runs"), "--resamples", "20")
    assert code == 2
    assert "is a symbolic link" in err
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("linked", ["figures", "section", "section/figures"])
def test_nothing_is_removed_through_a_linked_folder(linked: str, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "report", tmp_path / "elsewhere"
    for folder in (out / linked).parent, elsewhere / "figures":
        folder.mkdir(parents=True)
    (out / linked).symlink_to(elsewhere)
    names = {"figures": "a.png", "section": "figures/a.png", "section/figures": "a.png"}
    victim = elsewhere / names[linked]
    victim.write_bytes(b"precious")
    digest = hashlib.sha256(b"precious").hexdigest()
    manifest = {f"{linked}/{names[linked]}": digest}
    (out / ".proxrl-report.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="is a symbolic link: choose another --out"):
        write_files(out, {"index.html": b"new"})
    assert victim.read_bytes() == b"precious"
    assert not (out / "index.html").exists()


def test_names_in_a_manifest_that_lead_elsewhere_are_ignored(tmp_path: Path) -> None:
    out, victim = tmp_path / "report", tmp_path / "index.html"
    (out / "section").mkdir(parents=True)
    victim.write_bytes(b"precious")
    digest = hashlib.sha256(b"precious").hexdigest()
    names = ["../index.html", str(victim), "section/../../index.html", "figures/../../index.html"]
    names += ["figures/a\0.png", "figures/\ud800.png"]  # which no file can have
    (out / ".proxrl-report.json").write_text(json.dumps(dict.fromkeys(names, digest)))
    write_files(out, {"index.html": b"new"})
    assert victim.read_bytes() == b"precious"
    assert list(json.loads((out / ".proxrl-report.json").read_text())) == ["index.html"]


def test_a_page_without_a_manifest_is_someone_elses_whatever_it_says(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<style></style><p class="kicker">proxrl report</p>')
    with pytest.raises(UserError, match="was not made by"):
        write_files(tmp_path, {"index.html": b"new"})


def test_an_edited_file_of_a_report_is_kept(tmp_path: Path) -> None:
    said: list[str] = []
    write_files(tmp_path, {"index.html": b"first", "scores.csv": b"1"}, said.append)
    for number, edited in enumerate(("my notes", "more notes"), start=1):
        (tmp_path / "index.html").write_text(edited)
        write_files(tmp_path, {"index.html": b"second", "scores.csv": b"2"}, said.append)
        assert len(said) == number
    assert said[0] == "index.html edited since the last report: kept as index.html.edited"
    content = {path.name: path.read_text() for path in tmp_path.iterdir()}
    del content[".proxrl-report.json"]
    assert content == {
        "index.html": "second",
        "index.html.edited": "my notes",
        "index.html.edited-2": "more notes",
        "scores.csv": "2",
    }


@pytest.mark.parametrize("written", range(4))
def test_a_report_that_was_killed_is_not_an_edited_one(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    files = {"index.html": b"first", "scores.csv": b"1"}
    write_files(tmp_path, files)
    replace, left = os.replace, iter([True] * written)

    def killed(source: Path, target: Path) -> None:
        if not next(left, False):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path, {"index.html": b"second", "scores.csv": b"2"}, said.append)
    monkeypatch.undo()
    for path in tmp_path.glob(".*.writing"):  # its name has the process id
        path.unlink()
    write_files(tmp_path, {"index.html": b"third", "scores.csv": b"3"}, said.append)
    assert said == []
    assert (tmp_path / "index.html").read_bytes() == b"third"


def test_a_full_disk_leaves_no_part_of_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"index.html": b"first"})

    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match="No space left"):
        write_files(tmp_path, {"index.html": b"second"})
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", ".proxrl-report.json"}
    assert (tmp_path / "index.html").read_bytes() == b"first"


def test_names_that_cannot_be_printed_are_escaped_and_a_bad_run_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / os.fsdecode(b"runs\xff")
    settings = {"evaluation.period_steps": 1000}
    for seed, name in enumerate([b"not-utf8-\xff", b"red\x1b[31m\nline", b"no-number"]):
        config = preset("dqn", "CartPole-v1", settings, steps=3000, seed=seed)
        write_run(root / os.fsdecode(name), config, lambda step: [step / 100, 5.0])
    edited = json.loads((root / "no-number" / "config.json").read_text())
    edited["learner"]["update_period_steps"] = 0
    (root / "no-number" / "config.json").write_text(json.dumps(edited))
    code, out, err = run_cli(capsys, str(root), "--resamples", "20")
    assert code == 0
    assert err == "proxrl: no-number is skipped: config.json cannot be read: division by zero"
    with (root / "report" / "scores.csv").open() as file:
        names = {row["run"] for row in csv.DictReader(file)}
    assert names == {r"not-utf8-\udcff", r"red\x1b[31m\nline", "no-number"}
    assert "\x1b" not in (root / "report" / "index.html").read_text() + out
    code, _, _ = run_cli(capsys, str(root), "--resamples", "20", "--agent", "dqn", "\udcff*")
    assert code == 0
    assert r"--agent dqn \udcff*" in (root / "report" / "index.html").read_text()


# --------------------------------------------------------------------------------- the command line


def run_cli(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        cli.main(["report", *arguments])
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err.strip()


def test_a_corrupt_run_is_a_warning(runs: Path, tmp_path: Path, capsys) -> None:
    code, out, err = run_cli(capsys, str(runs), "--out", str(tmp_path), "--resamples", "50")
    assert code == 0
    assert err == "proxrl: dqn_Pong_1 is skipped: metrics.jsonl line 21: not valid JSON"
    assert "DQN Pro" in out
    assert f"wrote {tmp_path / 'index.html'}" in out


FORGED = {
    "a period of 400 digits": {"train/period_returns": [[10**400, 1.0, 3]]},
    "a short period": {"train/period_returns": [[1000, 1.0, 3], [-5, 1.0, 3]]},
    "returns of 1e308": {"eval/mean_return": 1.7e308, "eval/returns": [-1.7e308]},
    "a late step": {"step": 2**62},
    "seed": {},
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("what", FORGED)
def test_one_forged_run_among_good_ones_is_skipped(what: str, tmp_path: Path, capsys) -> None:
    for agent, seed in itertools.product(("dqn", "dqn-pro"), (0, 1)):
        config = preset(
            agent, "CartPole-v1", {"evaluation.period_steps": 1000}, steps=1000, seed=seed
        )
        write_run(tmp_path / f"{agent}{seed}", config, lambda step: [step / 100, 5.0])
    file = tmp_path / "dqn0" / ("metrics.jsonl" if FORGED[what] else "config.json")
    changes = FORGED[what] or {"seed": 10**400}
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}) + "\n")
    code, out, err = run_cli(capsys, str(tmp_path), "--resamples", "20")
    assert code == 0
    assert err.startswith(f"proxrl: dqn0 is skipped: {file.name}")
    assert "\n" not in err
    assert "DQN Pro" in out


@pytest.mark.filterwarnings("error")
def test_the_largest_returns_are_reported(tmp_path: Path) -> None:
    """Their squares, and squares of variances, are finite."""
    for agent, seed in itertools.product(("dqn", "dqn-pro"), (0, 1, 2)):
        config = preset(
            agent, "ALE/Pong-v5", {"evaluation.period_steps": 1000}, steps=2000, seed=seed
        )
        write_run(
            tmp_path / f"{agent}{seed}", config, lambda step, seed=seed: [(-1) ** seed * 1e50]
        )
    page, _ = make_report(tmp_path, resamples=20, say=pytest.fail)
    with (page.parent / "scores.csv").open() as rows:
        assert len(list(csv.DictReader(rows))) == 6


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda root: None, [], "contains no runs"),
        (lambda root: (root / "config.json").write_text('{"layers": 3}'), [], "contains no runs"),
        (lambda root: root.rmdir(), [], "does not exist"),
        (lambda root: None, ["--steps", "0"], "invalid --steps 0: must be at least 1"),
        (lambda root: None, ["--resamples", "0"], "invalid --resamples 0: must be"),
        (lambda root: None, ["--baselines", "atari"], "dopamine"),
        (lambda root: cartpole(root), ["--baselines", "dopamine"], "only for Atari"),
        (lambda root: cartpole(root), ["--steps", "10"], "no run has an evaluation by then"),
        (lambda root: cartpole(root), ["--out", "/dev/null/x"], "cannot write to /dev/null/x"),
        (lambda root: cartpole(root), ["--env", "Pong"], "no run matches --env Pong: there are"),
        (lambda root: cartpole(root), ["--agent", "ppo", "--env", "C*"], "--env C* --agent ppo"),
        (lambda root: cartpole(root), ["--layout", "{seed}"], "invalid --layout {seed}: write"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    make, options: list[str], message: str, tmp_path: Path, capsys
) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    make(root)
    code, out, err = run_cli(capsys, str(root), *options)
    assert code == 2
    assert out == ""
    assert err.startswith("proxrl: ")
    assert message in err
    assert "\n" not in err
    assert not (root / "report").exists()  # a refusal leaves nothing behind


def cartpole(root: Path, episodes: int = 1) -> None:
    for name, count in (("a", 1), ("b", episodes)):
        settings = {"evaluation.period_steps": 1000, "evaluation.episodes": count}
        config = preset("dqn", "CartPole-v1", settings, steps=2000, seed=ord(name))
        write_run(root / name, config, lambda step, count=count: [1.0] * count)


@IMPOSSIBLE_FOR_ROOT
def test_no_permission_to_write_is_one_line(tmp_path: Path, capsys) -> None:
    cartpole(tmp_path)
    tmp_path.chmod(0o555)
    try:
        code, _, err = run_cli(capsys, str(tmp_path))
    finally:
        tmp_path.chmod(0o755)
    assert code == 2
    assert "Permission denied" in err


def test_a_file_in_the_way_is_one_line(tmp_path: Path, capsys) -> None:
    cartpole(tmp_path)
    (tmp_path / "report").write_text("mine")
    code, _, err = run_cli(capsys, str(tmp_path))
    assert (code, err) == (2, f"proxrl: cannot write to {tmp_path / 'report'}: Not a directory")


def test_no_torch_for_a_report_and_nothing_heavy_for_help(tmp_path: Path) -> None:
    cartpole(tmp_path)
    code = (
        "import sys, proxrl.cli as c\n"
        "c.main(['--help'])\n"
        "heavy = {'jinja2', 'matplotlib', 'msgspec', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        f"c.main(['report', {str(tmp_path)!r}])\n"
        "assert 'torch' not in sys.modules\n"
    )
    before = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - before < 60


def test_nothing_is_written_or_read_through_links_and_pipes(tmp_path: Path) -> None:
    write_run(
        tmp_path / "run", presets.make("dqn", "CartPole-v1", steps=10_000), lambda step: [1.0]
    )
    out = tmp_path / "report"
    out.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("index.html.writing", f".index.html.{os.getpid()}.writing"):
        (out / name).symlink_to(victim)
    with contextlib.suppress(UserError):
        make_report(tmp_path / "run", out=out, resamples=10)
    assert victim.read_text() == "mine"
    os.mkfifo(tmp_path / "run" / "monitor.csv")
    os.mkfifo(tmp_path / "index.html")
    with contextlib.suppress(UserError):
        make_report(tmp_path / "run", out=tmp_path, resamples=10)
