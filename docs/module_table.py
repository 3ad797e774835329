"""The tables of modules on the page about the architecture, made from the modules themselves."""

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parent
PACKAGE = FOLDER.parent / "src" / "sojourn"


def write(app) -> None:
    """Write one table per package: each module and the first line of its docstring."""
    lines = []
    for path in sorted(PACKAGE.glob("*/__init__.py"), key=_layer):
        name = path.parent.name
        purpose, _, rest = _docstring(path).partition("\n\n")
        start = re.search(r"Start reading: (.*)", rest)
        lines += [f"### `{name}`", "", _line(purpose), ""]
        lines += [f"Start reading: {start[1]}", ""] if start else []
        lines += ["| module | purpose |", "|---|---|"]
        for module in sorted(path.parent.rglob("*.py")):
            inside = ".".join(module.relative_to(path.parent).with_suffix("").parts)
            if inside != "__init__":
                first = _line(_docstring(module).partition("\n\n")[0])
                lines.append(f"| `{inside.removesuffix('.__init__')}` | {first} |")
        lines.append("")
    target = FOLDER / "generated" / "modules.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines), "utf-8")


def _layer(path: Path) -> int:
    """Place of a package in the list of layers on the page, lowest layer first."""
    page = (FOLDER / "architecture.md").read_text("utf-8")
    return page.index(f"| `{path.parent.name}` |")


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def _line(text: str) -> str:
    return text.replace("\n", " ").replace("``", "`")
