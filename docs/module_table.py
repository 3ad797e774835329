"""The table of modules on the page about the architecture, made from the modules themselves."""

import ast
from pathlib import Path

FOLDER = Path(__file__).parent
PACKAGE = FOLDER.parent / "src" / "sojourn"


def write(app) -> None:
    """Write the table: each module, what its first line says, and what of the package it needs."""
    lines = ["| module | holds | imports |", "|---|---|---|"]
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        first = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if name != "__init__":
            needs = ", ".join(f"`{module}`" for module in sorted(_imports(tree)))
            row = f"| `{name.removesuffix('.__init__')}` | {first} | {needs or '–'} |"
            lines.append(row.replace("``", "`"))
    target = FOLDER / "generated" / "modules.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines) + "\n", "utf-8")


def _imports(tree: ast.Module) -> set[str]:
    """Modules of the package that are imported when this one is."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sojourn"):
            inside = node.module.removeprefix("sojourn").lstrip(".")
            found |= {inside} if inside else {alias.name for alias in node.names}
    return found - {"errors"}
