"""check_html.py FOLDER TBLGEN SOURCE INCLUDE: the HTML of scripts/docs.py.

All tags close; every link inside leads to a page that is there, and to a place on it; every page
is in the menu; and the search finds each op, pass and option of TableGen's records by its name."""

import html.parser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

folder, tblgen, source, include = sys.argv[1:]
folder, source = Path(folder), Path(source)
index = json.loads((folder / "search.js").read_text().split("\n")[0].removeprefix("const INDEX=")
                   .rstrip(";"))


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.open, self.ids, self.links, self.path = [], [], [], path
        self.feed(path.read_text())
        assert not self.open, (path, self.open)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input", "html", "title"):
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "src"):
                self.links.append(value)

    def handle_endtag(self, tag):
        if tag not in ("html", "title"):
            assert self.open and self.open.pop() == tag, (self.path, tag, self.open, self.getpos())


pages = {path.name: Page(path) for path in sorted(folder.glob("*.html"))}
bad, count = [], 0
for name, page in pages.items():
    twice = {anchor for anchor in page.ids if page.ids.count(anchor) > 1}
    if twice:
        bad.append(f"{name} has the places {', '.join(sorted(twice))} twice")
    for link in page.links:
        if re.match(r"\w+:", link):
            continue
        count += 1
        target, _, anchor = link.partition("#")
        target = target or name
        if target in pages:
            if anchor and anchor not in pages[target].ids:
                bad.append(f"{name} links to {link}, which is no place on that page")
        elif not (folder / target).is_file():
            bad.append(f"{name} links to {link}, which is not there")
    for other in pages:
        if other not in page.links:
            bad.append(f"the menu of {name} has no {other}")
for section in index:
    target, _, anchor = section["url"].partition("#")
    if target not in pages or anchor not in pages[target].ids:
        bad.append(f"the search leads to {section['url']}, which is not there")
print(len(pages), "pages,", count, "links")


searched = []


def search(text):
    """What the page's script shows: every word is in the title or the text, titles count more."""
    searched.append(text)

    def score(section):
        total = 50 if section["title"].lower() == text.lower() else 0
        for word in text.lower().split():
            title = section["title"].lower()
            if word in title:
                total += 10
            elif word in section["text"].lower():
                total += 1
            else:
                return -1
        return total
    found = sorted(((score(section), -i) for i, section in enumerate(index)), reverse=True)[:20]
    return [index[-i] for points, i in found if points > 0]


names = {"op": 0, "pass": 0, "option": 0}
for path in sorted(path for pattern in ("dialects/*/*Ops.td", "passes/**/Passes.td",
                                        "lowering/**/Passes.td") for path in source.glob(pattern)):
    records = json.loads(subprocess.run(
        [tblgen, "--dump-json", "-I", include, "-I", source, "-I", path.parent, path],
        capture_output=True, text=True, check=True).stdout)
    kinds = records["!instanceof"]
    for op in (records[name] for name in kinds.get("Op", [])):
        dialect = records[op["opDialect"]["def"]]["name"]
        if dialect != path.parent.name.lower():
            continue
        names["op"] += 1
        name = f"{dialect}.{op['opName']}"
        if name not in [hit["title"] for hit in search(name)][:1]:
            bad.append(f"a search for the op {name} does not find it first")
    for record in (records[name] for name in kinds.get("PassBase", [])):
        name = record["argument"]
        names["pass"] += 1
        if [hit["title"] for hit in search(name)][:1] != [name]:
            bad.append(f"a search for the pass {name} does not find it first")
        for option in (records[option["def"]] for option in record["options"]):
            names["option"] += 1
            if not any(hit["title"] == name for text in (option["argument"],
                                                         f"{name} {option['argument']}")
                       for hit in search(text)):
                bad.append(f"a search for {name} {option['argument']} does not find it")
print(", ".join(f"{count} of kind {kind}" for kind, count in names.items()), "looked for")
for title in ("nn.relu", "nn-fuse", "Several devices"):
    for entry in search(title)[:1]:
        print(title, "in", entry["url"] + ":", entry["text"][:60].replace("_", "").lower())
# Where there is something to run it, the script itself.
if node := shutil.which("node"):
    script = ("const document={getElementById:()=>({})};" + (folder / "search.js").read_text() +
              f";for(const text of {json.dumps(searched)})"
              "console.log(JSON.stringify(search(text).map(s=>s.url)))")
    run = subprocess.run([node, "-"], input=script, capture_output=True, text=True, check=True)
    for text, line in zip(list(searched), run.stdout.splitlines(), strict=True):
        if json.loads(line) != [hit["url"] for hit in search(text)]:
            bad.append(f"the page's script finds something else for '{text}'")
for each in bad:
    print("BAD", each)
sys.exit(1 if bad or not all(names.values()) else 0)
