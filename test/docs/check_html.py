"""check_html.py FOLDER: where a search finds three sections; whether all tags close."""

import html.parser
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
index = json.loads((folder / "search.js").read_text().split("\n")[0].removeprefix("const INDEX=")
                   .rstrip(";"))
for title in ("nn.relu", "nn-fuse", "Several devices"):
    entry, = [section for section in index if title in section["title"].lstrip("-")][:1]
    page, anchor = entry["url"].split("#")
    assert f'id="{anchor}"' in (folder / page).read_text(), entry
    print(title, "in", entry["url"] + ":", entry["text"][:60].replace("_", "").lower())


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input", "html", "title"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("html", "title"):
            assert self.open and self.open.pop() == tag, (tag, self.open, self.getpos())


for path in folder.glob("*.html"):
    tags = Tags()
    try:
        tags.feed(path.read_text())
    except AssertionError as error:
        sys.exit(f"{path}: {error}")
    assert not tags.open, (path, tags.open)
print("well-formed")
