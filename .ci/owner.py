"""Write the owner's address wherever the project needs one: python .ci/owner.py NAME.

Until then only `_config.yml` has an address, with the placeholder OWNER.  `--date` sets the date of
the version in `CITATION.cff`, by default today.
"""

import argparse
import datetime
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("_config.yml", "pyproject.toml", "CITATION.cff")


def replaced(text, pattern, line, before):
    """The text with the line that matches replaced, or the line put before another."""
    if re.search(pattern, text, re.MULTILINE):
        return re.sub(pattern, lambda _: line, text, count=1, flags=re.MULTILINE)
    assert before in text, before
    return text.replace(before, f"{line}\n{before}", 1)


def with_owner(texts, owner, date):
    """The three files' texts with this owner; a second call changes the owner again."""
    address = f"https://github.com/{owner}/sampled-metrics"
    pages = f"https://{owner.lower()}.github.io/sampled-metrics/"
    urls = (
        f'[project.urls]\nRepository = "{address}"\nDocumentation = "{pages}"\n'
        f'Issues = "{address}/issues"\nChangelog = "{address}/blob/main/CHANGELOG.md"\n'
    )
    config, project, citation = (texts[name] for name in FILES)
    config = re.sub(r"(?m)^  url: \S+$", f"  url: {address}", config)
    project = replaced(project, r"^\[project\.urls\]\n(?:\w+ = .*\n)+", urls, "[project.scripts]")
    citation = replaced(
        citation, r"^repository-code: .*$", f"repository-code: {address}", "license:"
    )
    citation = replaced(citation, r"^url: .*$", f"url: {pages}", "license:")
    citation = replaced(citation, r"^date-released: .*$", f"date-released: {date}", "license:")
    return dict(zip(FILES, (config, project, citation), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("owner", help="account or organisation")
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today())
    arguments = parser.parse_args()
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?", arguments.owner):
        parser.error(f"owner must be the name of an account, got {arguments.owner!r}")
    texts = {name: (ROOT / name).read_text() for name in FILES}
    for name, text in with_owner(texts, arguments.owner, arguments.date).items():
        (ROOT / name).write_text(text)
        print(name)


if __name__ == "__main__":
    main()
