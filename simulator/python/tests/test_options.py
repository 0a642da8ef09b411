"""Options of commands as keyword arguments: those of the reference, which other tests compare with the commands."""

import keyword
import os
import pathlib
import pprint
import re

import pytest

from angara import _command, _options

HERE = pathlib.Path(__file__).resolve().parent.parent
PAGE = HERE.parent.parent / "docs/reference/options.md"
COMMANDS = ["run", "whatif"]
COMMANDS += ["plan barrier", "plan matmul", "plan routes", "plan tree"]
COMMANDS += ["alloc set", "alloc check", "alloc map", "alloc simulate", "alloc slurm"]
# Results are read as JSON; a debugger needs the terminal; `env` is a dict.
ELSEWHERE = {"json", "debug", "x"}
# These have other meanings here.
RENAMED = {"np": "n", "check": "checks"}
BEGIN = '''"""Options of commands. Written by tests/test_options.py from docs/reference/options.md."""

from typing import Dict, Tuple

'''


def options(command):
    section = PAGE.read_text().split(f"<!-- options: angara {command} -->")[1].split("<!-- end -->")[0]
    found = {}
    for row in section.splitlines():
        cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row)]
        written = re.search(r"--([a-z-]+)(.*)`", cells[1]) if len(cells) == 4 else None
        if written and (name := written[1].replace("-", "_")) not in ELSEWHERE:
            name = RENAMED.get(name, name) if command in ("run", "whatif") else name
            name += "_" * keyword.iskeyword(name)
            found[name] = (f"--{written[1]}", written[2].strip(), cells[2])
    return found


def table():
    return {command: options(command) for command in COMMANDS}


def kind(value, about):
    if not value:
        return "bool"
    if value == "<YES|NO>":
        return "bool"
    if value.startswith("["):
        return "Union[bool, Value]"
    if value.count("<") == 2:
        return "Union[Sequence[Value], Sequence[Sequence[Value]]]"
    return "Union[Value, Sequence[Value], Mapping[str, Value]]" if value.startswith("<KEY=VALUE") else "Values"


def stubs(table):
    lines = ['"""Types of the options of commands. Written by tests/test_options.py."""', ""]
    lines += ["import os", "from typing import Dict, Mapping, Sequence, Tuple, TypedDict, Union", ""]
    lines += ["OPTIONS: Dict[str, Dict[str, Tuple[str, str, str]]]", ""]
    lines += ["Value = Union[str, int, float, os.PathLike[str]]", "Values = Union[Value, Sequence[Value]]", ""]
    for command in ["run", "whatif"]:
        lines.append(f"class {command.title()}(TypedDict, total=False):")
        own = {"n", "machine", "clock", "report", "trace"} if command == "run" else {"n", "machine"}
        lines += [f"    {name}: {kind(*row[1:])}" for name, row in table[command].items() if name not in own]
        lines.append("")
    for group in ["plan", "alloc"]:
        lines.append(f"class {group.title()}(TypedDict, total=False):")
        tables = [table[command] for command in COMMANDS if command.startswith(group)]
        rows = {name: kind(*row[1:]) for one in tables for name, row in one.items()}
        lines += [f"    {name}: {of}" for name, of in rows.items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def test_the_tables_are_those_of_the_reference():
    """``ANGARA_BLESS=1`` writes them."""
    new = table()
    shown = pprint.pformat(new, width=118, sort_dicts=False)
    text = f"{BEGIN}OPTIONS: Dict[str, Dict[str, Tuple[str, str, str]]] = {shown}\n"
    files = {HERE / "angara/_options.py": text, HERE / "angara/_options.pyi": stubs(new)}
    if os.environ.get("ANGARA_BLESS"):
        for path, content in files.items():
            path.write_text(content)
    stale = [path.name for path, content in files.items() if path.read_text() != content]
    assert not stale, "ANGARA_BLESS=1 pytest writes them again"


def test_keyword_arguments_become_options():
    def words(**options):
        return _command.words("run", options)

    assert words(pes_as="coroutines", ppn=2, seed=None) == ["--pes-as=coroutines", "--ppn=2"]
    assert words(strict=True, label=False, web_stay=False) == ["--strict", "--web-stay=no"]
    assert words(trace_links=True, checks="races") == ["--trace-links", "--check=races"]
    assert words(fault=["a", "b"], torus=(4, 2), set={"link": "15GB/s", "hop": "60ns"}) == [
        "--fault=a",
        "--fault=b",
        "--torus=4x2",
        "--set=link=15GB/s,hop=60ns",
    ]
    assert _command.words("plan routes", {"from_": "0,0"}) == ["--from=0,0"]
    assert words(wrap=(2, "valgrind")) == words(wrap=[("2", "valgrind")]) == ["--wrap", "2", "valgrind"]
    assert _command.words("whatif", dict(n=[2, 4], torus=["4x2", "8"])) == ["--np=2,4", "--torus=4x2,8"]


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(pes_az="coroutines"), "pes_az is no option of angara run: did you mean pes_as?"),
        (dict(zzz=1), "zzz is no option of angara run: there are n, mpi, heap"),
        (dict(ppn=True), "ppn is True: give a value, <K>"),
        (dict(strict="yes"), "strict is 'yes': give True or False"),
        (dict(wrap="valgrind"), "give a pair, <PES> <COMMAND>"),
        (dict(ppn=object), "ppn is <class 'object'>: give a text, a number"),
    ],
)
def test_mistakes_are_named_with_a_remedy(options, text):
    with pytest.raises(ValueError) as caught:
        _command.words("run", options)
    assert text in str(caught.value)


def test_texts_of_commands_are_in_words_of_python():
    said = "error: invalid value 'foo' for '--pes-as <HOW>'\n  [possible values: a]\n\nFor more information, try\n"
    assert _command.said_in_python("run", said) == "invalid value 'foo' for pes_as\n  [possible values: a]"
    said = "angara: error: 400 PEs do not fit\nangara: try: give --ppn 13, or --call-cost\n"
    assert _command.said_in_python("run", said) == "400 PEs do not fit\n  give ppn 13, or call_cost"
