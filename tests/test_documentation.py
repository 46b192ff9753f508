"""Every command in the documentation and in the program's output is valid, and every Python example
runs.

`proxrl` commands go through the real parser (`cli.parse`), which does everything but the work.
`make` targets and modules of `python -m` must exist. Words in capitals are placeholders: RUN is a
run folder, DIR a folder, and so on.
"""

import ast
import importlib
import importlib.util
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxrl import cli, presets
from proxrl.commands import train as train_command
from proxrl.studies.definition import BUILT_IN, load
from proxrl.studies.expand import expand, scale_of
from tests.report.synthetic import write_run

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "CHANGELOG.md",
]
SCRIPTS = [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "benchmarks").glob("*.py"))]
SOURCES = sorted((ROOT / "src" / "proxrl").rglob("*.py"))
DATA = sorted(
    path
    for ending in ("*.toml", "*.csv", "*.html")
    for path in (ROOT / "src" / "proxrl").rglob(ending)
)
READERS_OWN = {
    "PRESET": "dqn",
    "ID": "CartPole-v1",
    "COMMAND": "plan",
    "NAME": "main",
    "STUDY": "main",
    "SCALE": "smoke",
    "MiniGrid-DoorKey-5x5-v0": "CartPole-v1",  # its suite is installed by tests/suites
}
PROGRAMS = ("proxrl ", "make ", "python -m ", "python examples/", "python docs/tools/")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


# ------------------------------------------------------------------------------ what is printed


def in_page(path: Path) -> Iterator[str]:
    """Lines of shell blocks, indented lines, and inline code."""
    text = path.read_text(encoding="utf-8")
    for kind, block in BLOCK.findall(text):
        if kind == "sh":
            yield from (line for line in block.splitlines() if line.strip())
    text = BLOCK.sub("", text)
    yield from (line for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE))
    yield from (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text))


def in_source(path: Path) -> Iterator[str]:
    """Commands in any string, f-strings with an example in place of each value."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from in_string(node.value)
        elif isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:
                text += part.value if isinstance(part, ast.Constant) else example(part, text)  # type: ignore[operator]
            yield from in_string(text)


def example(value: ast.expr, before: str) -> str:
    assert isinstance(value, ast.FormattedValue)
    if before.endswith("proxrl "):
        return ast.unparse(value)  # a version, not a command
    if re.search(r"--(steps|episodes) $", before):
        return "1000"
    if ast.unparse(value.value).startswith(("trust_option(", "options")):
        return " --trust"
    return "dqn" if ast.unparse(value.value) == "agent" else "RUN"


def in_string(text: str) -> Iterator[str]:
    """A command ends at a backtick, a line break, or a character that it cannot contain."""
    names = "|".join(cli.COMMANDS)
    for found in re.finditer(rf"(?<![\w/.-])proxrl ({names}|--\w+)\b[^`;()\n'\"<]*", text):
        yield found.group().strip(" ,.:")


def printed() -> dict[str, str]:
    """Command -> where it first appears."""
    found: dict[str, str] = {}
    for path in PAGES:
        for line in in_page(path):
            for start in PROGRAMS:
                if re.match(rf"(OMP_NUM_THREADS=\d )?{start}", line):
                    found.setdefault(line, path.name)
    for path in SOURCES:
        for line in in_source(path):
            found.setdefault(line, path.name)
    for path in SCRIPTS:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for line in re.findall(r"^    (python .*)$", docstring, re.MULTILINE):
            found.setdefault(line.split("  ")[0], path.name)  # comments come after two spaces
    for path in DATA:
        for code in re.findall(r"`(proxrl [^`]+)`", path.read_text(encoding="utf-8")):
            found.setdefault(code, path.name)
    for line in re.findall(r"^\t@?\$\(BIN\)/(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE):
        found.setdefault(line, "Makefile")
    return found


PRINTED = printed()
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands refer to: a run, and the study of docs/studies.md."""
    folder = tmp_path_factory.mktemp("place")
    write_run(folder / "RUN", presets.make("dqn", "CartPole-v1", steps=10_000), lambda step: [1.0])
    studies = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    toml = next(block for kind, block in BLOCK.findall(studies) if kind == "toml")
    (folder / "my_study.toml").write_text(toml, encoding="utf-8")
    (folder / "my_module.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('MyEnv-v0', CartPoleEnv)\n"
    )
    rules = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    rule = next(block for kind, block in BLOCK.findall(rules) if kind == "python")
    (folder / "fading.py").write_text(rule, encoding="utf-8")
    for page, name in (("environment", "corridor"), ("network", "wide")):
        text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
        code = next(block for kind, block in BLOCK.findall(text) if kind == "python")
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return folder


def test_the_collection_has_what_it_should() -> None:
    for command, where in (
        ("proxrl plan --theory", "planning.md"),
        ("proxrl eval RUN --episodes 30", "README.md"),
        ("proxrl report RUN --steps 1000", "words.py"),
        ("python -m pytest -n 2 --dist worksteal", "Makefile"),
    ):
        assert PRINTED[command] == where
    assert any(line.startswith("python -m benchmarks.intervals") for line in PRINTED)
    assert len(PRINTED) > 50


@pytest.mark.parametrize(
    "line", [pytest.param(line, id=f"{where}: {line}") for line, where in PRINTED.items()]
)
def test_a_printed_command_is_one_that_there_is(
    line: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    words = shlex.split(line, comments=True)
    if words[0].startswith("OMP_NUM_THREADS="):
        del words[0]
    if ">" in words:  # the shell's
        words = words[: words.index(">")]
    assert "..." not in words, "cannot be run as printed"
    if words[0] == "make":
        assert set(words[1:]) <= TARGETS
    elif words[0] in ("python", "python3.11"):
        check_python(words[1:])
    else:
        check_proxrl([READERS_OWN.get(word, word) for word in words[1:]])


def check_python(words: list[str]) -> None:
    """A script with its arguments: parsed if it has a parser, else found in its source."""
    if words[0] != "-m":
        script = ROOT / words[0]
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(script.parent)  # as if it were run
            module = runpy.run_path(str(script))
        if "arguments" in module:
            module["arguments"](words[1:])
        return
    package, _, name = words[1].partition(".")
    if package == "benchmarks" and name != "NAME":
        module = importlib.import_module(f"benchmarks.{name or '__main__'}")
        module.arguments([word for word in words[2:] if word != "--help"])
    else:
        assert name == "NAME" or importlib.util.find_spec(words[1]) is not None


def test_arguments_that_a_benchmark_does_not_have_are_found() -> None:
    for line in (
        "benchmarks throughputs",
        "benchmarks.throughput pinball",
        "benchmarks.throughput minatar --rounds 0",
        "benchmarks.planning --quick",
        "benchmarks.intervals --study 1 --nothing",
    ):
        with pytest.raises(SystemExit):
            check_python(["-m", *line.split()])
    with pytest.raises(SystemExit):
        check_python(["examples/dqn_pro_single_file.py", "--k", "1"])
    with pytest.raises(SystemExit):
        check_python(["docs/tools/ablations.py", "main", "report-main"])


def check_proxrl(arguments: list[str]) -> None:
    if arguments in (
        ["train"],
        ["resume"],
        ["eval"],
        ["play"],
        ["report"],
        ["tune"],
        ["completion"],
    ):
        return  # an existing command
    if any(word.startswith("[") for word in arguments):
        return  # a usage line, with brackets around optional parts
    if arguments[0] in ("train", "tune") and len(arguments) == 2:
        arguments.append("--help")  # the message that the program appends to
    code = None
    try:
        cli.parse(arguments)
    except SystemExit as left:  # after --help
        code = left.code
    assert not code
    if arguments[0] == "study" and len(arguments) > 1 and not arguments[1].startswith("-"):
        definition = load(arguments[1])
        scale = arguments[arguments.index("--scale") + 1] if "--scale" in arguments else None
        if definition.plan is None and scale is not None:
            assert expand(definition, scale_of(definition, scale), Path("study"))


def test_bare_and_explicit_switches_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting's switch needs no value; a command's flag takes none."""
    seen = []
    monkeypatch.setattr(train_command, "validated", lambda config: seen.append(config) or config)
    line = ["train", "dqn", "--env", "CartPole-v1"]
    for words in (
        ["--network.dueling"],
        ["--network.dueling", "True"],
        ["--network.dueling", "--seed", "0"],
    ):
        cli.parse([*line, *words])
    assert all(config.network.dueling for config in seen)
    cli.parse([*line, "--logging.tensorboard", "False"])
    assert not seen[-1].logging.tensorboard


def test_the_help_of_every_command_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        "completion",
        "demo",
        "eval",
        "play",
        "runs",
        "report",
        "presets",
        "plan",
        "study",
    ):
        with pytest.raises(SystemExit) as left:
            cli.parse([command, "--help"])
        assert left.value.code == 0
    assert "--theory" in capsys.readouterr().out


def test_every_study_that_comes_along_is_a_study() -> None:
    assert all(tomllib.loads(path.read_text()) for path in DATA if path.suffix == ".toml")
    assert {path.stem for path in DATA if path.parent.name == "data"} >= set(BUILT_IN)


# ------------------------------------------------------------------------------- Python examples


RUN_HERE = [
    "README.md",
    "docs/index.md",
    "docs/planning.md",
    "docs/python.md",
    "docs/api/training.md",
    "docs/drop-in.md",
    "docs/how-to/environment.md",
    "docs/how-to/network.md",
]
RUN_ELSEWHERE = {"docs/rules.md", "docs/suites.md"}  # the fixture `place`; tests/suites


def test_every_page_with_python_is_run() -> None:
    with_python = {
        str(page.relative_to(ROOT))
        for page in PAGES
        if any(kind == "python" for kind, _ in BLOCK.findall(page.read_text(encoding="utf-8")))
    }
    assert with_python == {*RUN_HERE} | RUN_ELSEWHERE


@pytest.mark.parametrize("page", RUN_HERE)
def test_python_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page one after the other, in one namespace; training is shortened."""
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("tianshou")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    make = presets.make
    short = {
        "replay.warmup_steps": 128,
        "evaluation.period_steps": 200,
        "evaluation.episodes": 1,
    }

    def shortened(agent: str, env: object, changes=None, **top):  # type: ignore[no-untyped-def]
        return make(agent, env, {**short, **(changes or {})}, **{**top, "steps": 200})

    monkeypatch.setattr(presets, "make", shortened)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [block for kind, block in BLOCK.findall(text) if kind == "python"]
    assert blocks
    names: dict[str, object] = {"__name__": page}
    for block in blocks:
        code = re.sub(r"\.learn\([\d_]+\)", ".learn(200)", block)
        exec(compile(code, page, "exec"), names)
