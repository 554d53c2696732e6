"""The methodologist's walk: from an office's file and a code list to a German report and Excel, in nine commands."""

import re
import shlex
import subprocess
from pathlib import Path

import openpyxl

from tests.cli.command import inside

SCRIPT = Path(__file__).parents[2] / "scripts" / "methodologist"


def number_after(text: str, begin: str) -> float:
    found = re.search(re.escape(begin) + r"\s*([\d.,]+)", text)
    assert found, text
    return float(found[1].replace(",", ""))


def walked(folder: Path) -> str:
    """What the commands of the script print, run in this process; what lies between them is run by a shell."""
    _, _, body = SCRIPT.read_text().partition('mktemp -d)}"\n')
    printed = ""
    for part in re.split(r"^(residua .*)$", body, flags=re.MULTILINE):
        if part.startswith("residua "):
            done = inside(*shlex.split(part)[1:], cwd=folder, ledger=False)
            assert done.code == 0, (part, done.err)
            printed += done.out
        else:
            subprocess.run(["bash", "-euc", part], cwd=folder, check=True)
    return printed


def test_the_walk_ends_in_a_report_and_an_excel_file(tmp_path: Path) -> None:
    commands = [line for line in SCRIPT.read_text().splitlines() if line.startswith("residua ")]
    assert len(commands) < 10
    assert not re.search(r"\bselect\b|\bcast\b|expression", SCRIPT.read_text(), re.IGNORECASE)
    printed = walked(tmp_path)
    # Standard deviations are below 1: an error of 20 has a chance below 10^-80.
    german = printed.translate({ord("."): "", ord(","): "."})
    assert abs(number_after(german, "München. Landeshauptstadt") - 800) < 20
    assert abs(number_after(printed, "'1990-Q1':") - 400) < 20
    assert abs(number_after(printed, "Kreis = Kiel:") - 400) < 20
    report = (tmp_path / "bericht.html").read_text()
    for words in (
        '<html lang="de">',
        "München, Landeshauptstadt",
        "Wie Personen geschützt sind",
        "1.000 bis unter 2.000",
    ):
        assert words in report
    assert "Schätzwert" in printed
    book = openpyxl.load_workbook(tmp_path / "excel" / "tables.xlsx")
    cells = {cell for sheet in book.worksheets for row in sheet.iter_rows(values_only=True) for cell in row}
    assert {"München, Landeshauptstadt", "Insgesamt", "2.000 und mehr", "Wer geschützt ist", "09162"} <= cells
    assert [book.sheetnames[0], book.sheetnames[1], book.sheetnames[-1]] == ["Inhalt", "Hinweise", "Alle Zahlen"]
