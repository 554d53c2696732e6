"""The methodologist's walk: from an office's files and a code list to German reports and Excel, in nine commands."""

import os
import re
import shlex
import subprocess
import sys
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
    printed, env = "", {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for part in re.split(r"^(residua .*)$", body, flags=re.MULTILINE):
        if part.startswith("residua "):
            done = inside(*shlex.split(part)[1:], cwd=folder, ledger=False)
            assert done.code == 0, (part, done.err)
            printed += done.out
        else:
            subprocess.run(["bash", "-euc", part], cwd=folder, check=True, env=env)
    return printed


def test_the_walk_ends_in_a_report_and_an_excel_file(tmp_path: Path) -> None:
    commands = [line for line in SCRIPT.read_text().splitlines() if line.startswith("residua ")]
    assert len(commands) < 10
    assert not re.search(r"\bselect\b|\bcast\b|expression", SCRIPT.read_text(), re.IGNORECASE)
    walked(tmp_path)
    asked = (
        ("table", "release", "Kreis", "--language", "de"),
        ("count", "release", "Einkommen < 1000 and Geburtstag < '1990-Q1'"),
        ("count", "release", "Kreis = Kiel"),
        ("count", "umfrage", "bildung = Studium"),
    )
    printed = "".join(inside(*args, cwd=tmp_path, ledger=False).out for args in asked)
    # Standard deviations are below 1: an error of 20 has a chance below 10^-80.
    german = printed.translate({ord("."): "", ord(","): "."})
    assert abs(number_after(german, "München. Landeshauptstadt") - 800) < 20
    assert abs(number_after(printed, "'1990-Q1':") - 400) < 20
    assert abs(number_after(printed, "Kreis = Kiel:") - 400) < 20
    assert abs(number_after(printed, "bildung = Studium:") - 400) < 80
    survey = (tmp_path / "umfrage.html").read_text()
    assert all(words in survey for words in ('<html lang="de">', "Abschluss", "Lehre", "Sonstige"))
    assert "keine Angabe" not in survey
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
