#!/usr/bin/env python3
"""Builds the documentation as HTML with a search, from docs/*.md and TableGen.

    scripts/docs.py [-o build/docs]

The reference pages (dialects, passes, plugin example) are what mlir-tblgen writes. Needs Python
and mlir-22-tools alone; the pages need no server."""

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LLVM = Path("/usr/lib/llvm-22")

STYLE = """body{font:16px/1.5 sans-serif;margin:0;display:flex;color:#222}
nav{width:16em;min-height:100vh;padding:1em;background:#f4f4f1;box-sizing:border-box;flex:none}
nav a{display:block}main{max-width:52em;padding:1em 2em;min-width:0}
pre{background:#f4f4f1;padding:.7em;overflow-x:auto}code{font-size:.92em}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}
a{color:#164a9e;text-decoration:none}#q{width:100%;box-sizing:border-box}
#hits a{padding:.2em 0;border-bottom:1px solid #ddd}small{color:#666}
h2,h3{border-bottom:1px solid #ddd}"""

# Every word must be in a section; titles count for more, and most a title that is all of it.
SCRIPT = """const q=document.getElementById('q'),hits=document.getElementById('hits');
const search=text=>{const all=text.toLowerCase().trim(),words=all.split(/\\s+/).filter(Boolean);
if(!words.length)return[];
const score=s=>words.reduce((n,w)=>{if(n<0)return n;const t=s.title.toLowerCase();
return t.includes(w)?n+10:s.text.toLowerCase().includes(w)?n+1:-1},
s.title.toLowerCase()===all?50:0);
return INDEX.map(s=>[score(s),s]).filter(p=>p[0]>0).sort((a,b)=>b[0]-a[0]).slice(0,20)
.map(p=>p[1])};
q.oninput=()=>{hits.textContent='';search(q.value).forEach(s=>{
const a=document.createElement('a');a.href=s.url;a.textContent=s.title+' ';
const d=document.createElement('small');d.textContent=s.page;a.append(d);hits.append(a)})};"""


def slug(title):
    return re.sub(r"[^a-z0-9_]+", "-", title.lower()).strip("-")


def inline(text):
    """Code, links, bold and italics of one run of text."""
    parts = re.split(r"(`[^`]+`)", text)
    for i, part in enumerate(parts):
        if part.startswith("`") and len(part) > 2:
            parts[i] = f"<code>{html.escape(part[1:-1])}</code>"
            continue
        part = html.escape(part, quote=False)
        part = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", part)
        parts[i] = re.sub(r"(?<!\w)_(\S(?:.*?\S)?)_(?!\w)", r"<i>\1</i>", part)
    text = "".join(parts)

    def link(match):
        target = re.sub(r"^(?!\w+:)([^#]*?)([^/#]*)\.md(#.*)?$", r"\2.html\3", match.group(2))
        return f'<a href="{target}">{match.group(1)}</a>'

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, text)


def to_html(text):
    """HTML of a page, and its sections: (title, anchor, words)."""
    out, sections, paragraph, lines = [], [], [], text.split("\n")
    lists, anchors = [], set()

    def flush():
        if paragraph:
            out.append(f"<p>{inline(' '.join(paragraph))}</p>")
            if sections:
                sections[-1][2].extend(paragraph)
            paragraph.clear()

    def close():
        flush()
        while lists:
            out.append(f"</{lists.pop()}>")

    i = 0
    while i < len(lines):
        line = lines[i]
        i += 1
        fence = re.match(r"( *)```", line)
        indented = re.match(r"    \S", line) and not paragraph and not lists
        if fence or indented:
            close()
            block = [] if fence else [line[4:]]
            while i < len(lines) and (not re.match(r" *```", lines[i]) if fence else
                                      re.match(r"    |$", lines[i])):
                block.append(lines[i][len(fence.group(1)) if fence else 4:])
                i += 1
            i += bool(fence)
            out.append(f"<pre><code>{html.escape(chr(10).join(block).rstrip())}</code></pre>")
            if sections:
                sections[-1][2].extend(block)
        elif re.match(r"<!--.*-->$|\[TOC\]$", line):
            continue
        elif heading := re.match(r"(#+) (.*)", line):
            close()
            level, title = len(heading.group(1)), heading.group(2).rstrip("#: ")
            # A pass is `-name` to TableGen.
            plain = re.sub(r"[`*]", "", re.sub(r" \(::.*\)$", "", title)).lstrip("-")
            anchor = slug(plain)
            while anchor in anchors:
                anchor = f"{slug(plain)}-{len(anchors)}"
            anchors.add(anchor)
            out.append(f'<h{level} id="{anchor}">{inline(title)}</h{level}>')
            # Operands and results belong to their op.
            if level <= 3:
                sections.append((plain, anchor, []))
        elif line.startswith("|"):
            close()
            rows = [line]
            while i < len(lines) and lines[i].startswith("|"):
                rows.append(lines[i])
                i += 1
            out.append("<table>")
            for number, row in enumerate(rows):
                if re.fullmatch(r"[|:\- ]+", row):
                    continue
                tag = "th" if number == 0 else "td"
                cells = re.split(r"(?<!\\)\|", row.strip().strip("|"))
                out.append("<tr>" + "".join(f"<{tag}>{inline(cell.strip())}</{tag}>"
                                            for cell in cells) + "</tr>")
                if sections:
                    sections[-1][2].extend(cells)
            out.append("</table>")
        elif item := re.match(r" *([-*]|\d+\.) (.*)", line):
            flush()
            kind = "ul" if item.group(1) in "-*" else "ol"
            if not lists:
                out.append(f"<{kind}>")
                lists.append(kind)
            content = [item.group(2)]
            while i < len(lines) and re.match(r" +\S", lines[i]) and \
                    not re.match(r" *([-*]|\d+\.) | *```", lines[i]):
                content.append(lines[i].strip())
                i += 1
            out.append(f"<li>{inline(' '.join(content))}</li>")
            if sections:
                sections[-1][2].extend(content)
        elif not line.strip():
            close() if not (i < len(lines) and re.match(r" *([-*]|\d+\.) ", lines[i])) else flush()
        else:
            if lists:
                close()
            paragraph.append(line.strip())
    close()
    return "\n".join(out), sections


def reference(root):
    """Pages of TableGen: (group, name, Markdown)."""
    def tblgen(path, *arguments):
        return subprocess.run([LLVM / "bin/mlir-tblgen", "-I", LLVM / "include", "-I", root, "-I",
                               path.parent, *arguments, path], check=True, capture_output=True,
                              text=True).stdout

    for path in sorted(root.glob("dialects/*/*Ops.td")):
        dialect = path.parent.name.lower()
        text = tblgen(path, "-gen-dialect-doc", f"-dialect={dialect}")
        # Descriptions that are put together carry the indentation of their class.
        yield "Dialects", dialect, re.sub(r"(?m)^    (?=Example:|```|%|last dim|written)", "", text)
    passes = ["# Passes\n\nEach as `sheaf-opt --<name>`; `--help` has the options, too.\n"]
    for path in sorted(root.glob("passes/*/Passes.td")) + sorted(root.glob("lowering/**/Passes.td")):
        passes.append(f"## {path.parent.relative_to(root)}\n\n")
        passes.append(tblgen(path, "-gen-pass-doc").replace("<!-- Autogenerated", "<!-- "))
    yield "Passes", "passes", "\n".join(passes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build/docs")
    arguments = parser.parse_args()
    out = arguments.output
    if not (LLVM / "bin/mlir-tblgen").exists():
        sys.exit(f"docs.py: no {LLVM}/bin/mlir-tblgen; install mlir-22-tools")
    pages = []
    order = ["tutorial", "read-the-ir", "write-a-pass", "write-an-op"]
    for path in sorted((ROOT / "docs").glob("*.md"),
                       key=lambda p: (order + [p.stem]).index(p.stem)):
        pages.append(("Guides", path.stem, path.read_text()))
    for name in ("CONTRIBUTING", "CHANGELOG"):
        pages.append(("Project", name.lower(), (ROOT / f"{name}.md").read_text()))
    pages.insert(0, ("Project", "index", (ROOT / "README.md").read_text()))
    for path in sorted((ROOT / "docs/design").glob("*.md")):
        pages.append(("Design", path.stem, path.read_text()))
    pages += list(reference(ROOT))

    out.mkdir(parents=True, exist_ok=True)
    index, rendered, menu = [], [], {}
    for group, name, text in pages:
        body, sections = to_html(text)
        title = sections[0][0] if sections else name
        menu.setdefault(group, []).append((name, title))
        rendered.append((name, title, body))
        index += [{"title": section, "page": title, "url": f"{name}.html#{anchor}",
                   "text": " ".join(words)[:8000]} for section, anchor, words in sections]
    navigation = "".join(f"<h4>{group}</h4>" + "".join(
        f'<a href="{name}.html">{html.escape(title)}</a>' for name, title in entries)
        for group, entries in menu.items())
    for name, title, body in rendered:
        (out / f"{name}.html").write_text(
            f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)} - Sheaf"
            f"</title><style>{STYLE}</style><nav><input id=q type=search placeholder=Search>"
            f"<div id=hits></div>{navigation}</nav><main>{body}</main>"
            f"<script src=search.js></script></html>\n")
    data = json.dumps(index).replace("</", "<\\/")
    (out / "search.js").write_text(f"const INDEX={data};\n{SCRIPT}\n")
    shutil.copy(ROOT / "LICENSE", out)
    links = {link for name, _, _ in rendered
             for link in re.findall(r'href="([^":#]+)[#"]', (out / f"{name}.html").read_text())}
    missing = sorted(link for link in links if not (out / link).exists())
    if missing:
        sys.exit(f"docs.py: links to pages that are not there: {', '.join(missing)}")
    print(f"{len(rendered)} pages, {len(index)} sections in {out}")


if __name__ == "__main__":
    main()
