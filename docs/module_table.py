"""Floor plan and tables of modules of the page about the architecture, made from the modules."""

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
    target = FOLDER / "generated"
    target.mkdir(exist_ok=True)
    (target / "modules.md").write_text("\n".join(lines), "utf-8")
    (target / "floors.html").write_text(_floors(), "utf-8")


def _floors() -> str:
    """Packages by floor, the highest first: each imports only from floors below its own."""
    uses = {
        path.parent.name: set(
            re.findall(
                r"^(?:from|import) sojourn\.(\w+)",
                "\n".join(module.read_text("utf-8") for module in path.parent.rglob("*.py")),
                flags=re.MULTILINE,
            )
        )
        - {path.parent.name, "errors", "checks"}
        for path in PACKAGE.glob("*/__init__.py")
    }
    floor: dict[str, int] = {}
    while len(floor) < len(uses):
        ready = [name for name in uses if name not in floor and uses[name] <= set(floor)]
        floor |= {name: 1 + max((floor[u] for u in uses[name]), default=0) for name in ready}
    rows = []
    for level in sorted(set(floor.values()), reverse=True):
        boxes = "".join(
            f'<a href="#{name}">{name}</a>' for name in sorted(floor) if floor[name] == level
        )
        rows.append(f"<div>{boxes}</div>")
    rows.append("<div><span>errors, checks</span></div>")
    return f'<div class="floors">{"".join(rows)}</div>'


def _layer(path: Path) -> int:
    """Place of a package in the list of layers on the page, lowest layer first."""
    page = (FOLDER / "architecture.md").read_text("utf-8")
    return page.index(f"| `{path.parent.name}` |")


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def _line(text: str) -> str:
    return text.replace("\n", " ").replace("``", "`")
