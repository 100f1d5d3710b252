"""Settings of Sphinx for `make docs`: pages in Markdown, the Python reference from docstrings, the C and C++ reference
from the public headers."""

import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.ext.autodoc.mock import _MockObject
from sphinx.transforms import SphinxTransform
from sphinx.util import inspect
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
HEADERS = ROOT / "include" / "rtopk"
# Folders with pages that are HTML already, and the data behind them.
FINISHED = ("paper",)
# Pages of the repository's root, and the pages that show them here.
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}

project = "rtopk"
copyright = "rtopk contributors, MIT licence"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "breathe"]
myst_heading_anchors = 4
highlight_language = "none"

html_theme = "furo"
html_title = "rtopk"
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False

# ---- Python ----

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
toc_object_entries_show_parents = "hide"

# Docstrings are read without torch and without a compiled package: a page must not wait for a compiler.
sys.path.insert(0, str(ROOT / "python"))
autodoc_mock_imports = ["torch", "numpy", "jax"]
_MockObject.__or__ = lambda self, other: self
_MockObject.__setitem__ = lambda self, key, value: None
library = types.ModuleType("rtopk._library")
library.build = lambda: {"version": "", "cuda": "1", "highway": "1", "cpu_target": "", "cpu_targets": ""}
sys.modules["rtopk._library"] = library
generated = types.ModuleType("rtopk._version")
generated.__version__ = ""
sys.modules["rtopk._version"] = generated
native = types.ModuleType("rtopk._native")
native.build_text = lambda: "highway=1"
native.of_numpy = native.of_dlpack = native.of_address = None
sys.modules["rtopk._native"] = native
handlers = types.ModuleType("rtopk.jax._library")
handlers.TARGET = handlers.CAPTURABLE_TARGET = ""
handlers.HAS_CUDA, handlers.Attributes, handlers.workspace_bytes = True, object, None
sys.modules["rtopk.jax._library"] = handlers


def signature_of_module(app, what, name, thing, options, signature, returns):
    """Of a class that derives from a mock object, such as torch.nn.Module, the signature is that of its __init__."""
    if what == "class" and issubclass(thing, _MockObject):
        signature = inspect.signature(thing.__init__, bound_method=True)
        return inspect.stringify_signature(signature, show_return_annotation=False), returns


# ---- C and C++ ----

breathe_default_project = "rtopk"
breathe_domain_by_extension = {"hpp": "cpp", "h": "c"}
breathe_show_include = False  # it names headers without their folder
suppress_warnings = ["duplicate_declaration.cpp"]  # every header opens the namespace


# Everything but macros.
SECTIONS = (
    ":sections: briefdescription detaileddescription innernamespace innerclass enum func typedef var"
    " public-attrib public-func public-static-func"
)


def run_doxygen(app):
    folder = Path(app.doctreedir).with_name("doxygen")
    folder.mkdir(parents=True, exist_ok=True)
    settings = (DOCS / "Doxyfile").read_text() + f"INPUT = {HEADERS}\nOUTPUT_DIRECTORY = {folder}\n"
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True)
    app.config.breathe_projects = {"rtopk": str(folder / "xml")}


def opening_comment(header):
    """What a header says of itself, as Markdown: its indented lines are code."""
    language = "c" if header.suffix == ".h" else "cpp"
    text, code = [], []
    for line in header.read_text().splitlines():
        if not line.startswith(("//", "/* ", " *")) or line == " */":
            break
        line = line[3:]
        if line.startswith("  "):
            code.append(line[2:])
        else:
            text.append(line)
    return [*text, "", *([f"```{language}", *code, "```"] if code else []), ""]


class Headers(SphinxDirective):
    """A section for each public header that the lines of the directive name, in their order."""

    has_content = True

    def run(self):
        text = []
        for path in (path for pattern in self.content for path in sorted(HEADERS.glob(pattern))):
            name = path.relative_to(HEADERS.parent).as_posix()
            text += [f"## {name}", "", *opening_comment(path), f"```{{doxygenfile}} {path.name}", SECTIONS, "```", ""]
        section = nodes.section()
        section.document = self.state.document
        nested_parse_with_titles(self.state, StringList(text, source=str(HEADERS)), section)
        return section.children


class ShortContents(SphinxTransform):
    """The contents of a page leave out fields and enumerators, the namespace, and enumerations without a name."""

    default_priority = 5

    def apply(self):
        for described in self.document.findall(addnodes.desc):
            if described["domain"] in ("c", "cpp"):
                named = described["objtype"] in ("struct", "class", "function", "enum", "enum-class")
                described["no-contents-entry"] = not named or "[anonymous]" in described[0].astext()


# ---- Links ----


def with_links_of_the_site(app, docname, source):
    """Puts the text of a root page into its page here. Links to root pages, from anywhere, lead to their pages here."""
    (shown,) = [name for name, page in ROOT_PAGES.items() if f"{docname}.md" == page and page != "index.md"] or [None]
    if shown:
        app.env.note_dependency(str(ROOT / shown))
        source[0] = re.sub(r"\]\((?![a-z]+:|#)", "](../", (ROOT / shown).read_text()).replace("](../docs/", "](")
    up = "../" * (docname.count("/") + 1)
    for name, page in ROOT_PAGES.items():
        source[0] = source[0].replace(f"]({up}{name}", f"]({up[3:]}{page}")


class LinksOutOfTheSite(SphinxTransform):
    """Pages link to files and folders of the repository. On the site a finished HTML page is a page, a folder is its
    name without a link, and Sphinx makes a download of any other file."""

    default_priority = 5

    def target(self, node):
        path, _, anchor = node["reftarget"].partition("#")
        page = Path(self.env.doc2path(self.env.docname))
        return Path(os.path.normpath(page.parent / path)), anchor

    def apply(self):
        for node in list(self.document.findall(addnodes.download_reference)):
            path, anchor = self.target(node)
            if path.suffix == ".html" and path.parent.name in FINISHED and path.parent.parent == DOCS:
                up = "../" * self.env.docname.count("/")
                url = up + path.relative_to(DOCS).as_posix()
                node.replace_self(nodes.reference("", "", *node.children, refuri=url, internal=True))
        for node in list(self.document.findall(addnodes.pending_xref)):
            is_page = node.get("refdomain") == "doc"  # paper.md, and not the folder paper beside it
            if node.get("reftype") == "myst" and not is_page and self.target(node)[0].is_dir():
                node.replace_self(node.children)


def copy_finished_pages(app, error):
    if error is None:
        for name in FINISHED:
            shutil.copytree(DOCS / name, Path(app.outdir) / name, dirs_exist_ok=True)


def setup(app):
    app.add_directive("headers", Headers)
    app.add_transform(ShortContents)
    app.add_transform(LinksOutOfTheSite)
    app.connect("autodoc-process-signature", signature_of_module)
    app.connect("source-read", with_links_of_the_site)
    app.connect("builder-inited", run_doxygen)
    app.connect("build-finished", copy_finished_pages)
