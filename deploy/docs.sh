#!/usr/bin/env bash
# Builds the guide and the references into build/docs, which need no network to read: the tutorials
# and the operator's pages of deploy/docs, the API of the Python package, by pdoc, and that of the
# server, from the comments of proto/stowage/v1. Prints the path of the first page, last. Safe to run again.
#   deploy/docs.sh
# What builds them comes from PyPI, into a venv in the user's cache. The package is imported from the
# checkout, with the PyTorch of deploy/venv.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

tools="pdoc==16.0.0 Jinja2==3.1.6 MarkupSafe==3.0.4 Pygments==2.21.0 markdown2==2.5.5 markdown-it-py==4.3.0 mdurl==0.1.2"
package=client/python
output=build/docs

torch=$(deploy/venv.sh)
# shellcheck disable=SC2086  # words
tool=$(deploy/venv.sh docs --no-deps $tools)/bin/python
packages=$(echo "$torch"/lib/python3*/site-packages)
if ! ls "$package"/stowage/libstowage.so >/dev/null 2>&1; then
  # With the options of deploy/python.sh, which may have compiled it.
  STOWAGE_BUILD_PYTHON=$torch/bin/python STOWAGE_WERROR=ON deploy/wheel.sh --develop
fi

rm -rf "$output"
mkdir -p "$output/pictures"
cp server/web/pictures/*.png "$output/pictures/"

# What __all__ of the two packages names, and none of their modules.
OMP_NUM_THREADS=1 PYTHONPATH=$package:$packages "$tool" -m pdoc --docformat google \
  --no-show-source --output-directory "$output/python" \
  stowage '!stowage\.' stowage.torch '!stowage\.torch\.'

PYTHONPATH=$packages "$tool" deploy/dev/proto_reference >"$output/proto.html"

# The pages of deploy/docs and the index. Ends with an error where a page links to what does not exist.
"$tool" - "$output" <<'PYTHON'
import html, pathlib, re, sys
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

source, output = pathlib.Path("deploy/docs"), pathlib.Path(sys.argv[1])
formatter = HtmlFormatter(nowrap=True, style="friendly")
most_words = 1500  # of a tutorial
operators_pages = ["install", "several-servers", "operate", "alerts", "sizing"]
widest = 115  # columns of an output that is shown as it is; wider ones are wrapped


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub has it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f'<title>{html.escape(title)}</title><link rel="stylesheet" href="style.css"></head><body>\n'
        f"{body}</body></html>\n"
    )


def code(text: str, language: str, attributes: str) -> str:
    marked = highlight(text, get_lexer_by_name(language or "text"), formatter)
    wide = " wide" if max(map(len, text.splitlines())) > widest else ""
    return f'<pre class="{language}{wide}"><code>{marked}</code></pre>'


def rewritten(link: str) -> str:
    """A link from deploy/docs as one from the output: other pages and pictures are there, and what
    else is in the checkout is as far away.
    """
    if link.endswith(".png"):
        return f"pictures/{pathlib.PurePath(link).name}"
    path, _, anchor = link.partition("#")
    if path and "/" not in path:
        path = re.sub(r"\.md$", ".html", path)
    elif path.startswith("../") and not path.startswith("../../"):
        path = f"../../deploy/{path[3:]}"
    return path + (f"#{anchor}" if anchor else "")


def render(text: str) -> tuple[str, str]:
    """The title and the HTML of a page."""
    markdown = MarkdownIt("commonmark", {"highlight": code}).enable("table")
    tokens = markdown.parse(text)
    title = ""
    for token, content in zip(tokens, [*tokens[1:], None]):
        if token.type == "heading_open":
            token.attrs["id"] = slug(content.content)
            title = title or content.content
        for child in token.children or []:
            for name in ("href", "src"):
                if name in child.attrs:
                    child.attrs[name] = rewritten(child.attrs[name])
    return title, markdown.renderer.render(tokens, markdown.options, {})


def entry(path: pathlib.Path) -> str:
    """Writes the page; its line in the index."""
    title, body = render(path.read_text())
    top = '<p class="top"><a href="index.html">Stowage</a></p>\n'
    (output / f"{path.stem}.html").write_text(page(f"Stowage: {title}", top + body))
    return f'<li><a href="{path.stem}.html">{re.sub("^[0-9]. ", "", title)}</a></li>\n'


tutorials = sorted(source.glob("[0-9]-*.md"))
for path in tutorials:
    words = len(path.read_text().split())
    if words > most_words:
        sys.exit(f"docs: {path} has {words} words; {most_words} are allowed")
operation = [source / f"{name}.md" for name in operators_pages]
forgotten = set(source.glob("*.md")) - {*tutorials, *operation}
if forgotten:
    sys.exit(f"docs: {forgotten.pop()} is in no part of the index: name it in deploy/docs.sh")
(output / "index.html").write_text(page("Stowage", f"""<h1>Stowage</h1>
<p>A service that tells a training job how to fit its model into GPU memory with the least time
lost.</p>
<h2>Guide</h2>
<ol>
{"".join(map(entry, tutorials))}</ol>
<h2>Operation</h2>
<ul>
{"".join(map(entry, operation))}</ul>
<h2>Reference</h2>
<ul>
<li><a href="python/stowage.html">The Python package</a>, and its part for PyTorch,
<a href="python/stowage/torch.html">stowage.torch</a></li>
<li><a href="proto.html">The server's API</a>, <code>stowage.v1</code>: calls, messages, fields,
units</li>
<li>In the checkout: <a href="../../README.md">overview</a>,
<a href="../../deploy/README.md">first steps of an operator</a>,
<a href="../../solver/README.md">the model</a></li>
</ul>
<p><img src="pictures/schedule.png" alt="A schedule: memory over time, its operations, its stages"></p>
"""))
(output / "style.css").write_text(
    (source / "style.css").read_text() + HtmlFormatter(style="friendly").get_style_defs("pre")
)


def anchors(path: pathlib.Path) -> set[str]:
    text = path.read_text()
    if path.suffix == ".md":
        return {slug(re.sub(r"[`*]|\]\([^)]*\)|\[", "", line.lstrip("# ")))
                for line in text.splitlines() if line.startswith("#")}
    return set(re.findall(r'\bid="([^"]*)"', text))


wrong = []
for path in sorted(output.glob("*.html")):
    for attribute, link in re.findall(r'\b(href|src)="([^"]*)"', path.read_text()):
        parts = urlsplit(html.unescape(link))
        if parts.scheme and attribute == "href":
            continue  # followed by a reader alone
        target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
        if parts.scheme or not target.exists():
            wrong.append(f"{path.name}: {link} does not exist")
        elif parts.fragment and unquote(parts.fragment) not in anchors(target):
            wrong.append(f"{path.name}: {link} names no heading")
for path in sorted(output.rglob("*.html")):
    if re.search(r'<(script|img|link)\b[^>]*\b(src|href)="(https?:)?//', path.read_text()):
        wrong.append(f"{path.name}: needs a network to be read")
print("\n".join(f"docs: {one}" for one in wrong), end="\n" if wrong else "", file=sys.stderr)
sys.exit(1 if wrong else 0)
PYTHON

echo "$output/index.html"
