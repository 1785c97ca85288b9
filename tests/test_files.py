"""Tables as people have them: every layout is read, or one sentence says what to do."""

import datetime
import os
import sys
import zipfile
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from peql.cli.files import guard, read_table, to_csv

EXPECTED = pd.DataFrame({"speed": [1.5, 2.5, 3.5], "temp °C": [1.0, 1.0, 2.0], "y": [1, 2, 3]})


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("a.csv", "speed,temp °C,y\n1.5,1.0,1\n2.5,1.0,2\n3.5,2.0,3\n", "utf-8"),
        ("a.csv", "speed,temp °C,y\r\n1.5,1.0,1\r\n2.5,1.0,2\r\n3.5,2.0,3\r\n", "utf-8-sig"),
        ("a.csv", "speed;temp °C;y\n1,5;1,0;1\n2,5;1,0;2\n3,5;2,0;3\n", "latin-1"),
        ("a.csv", "speed;temp °C;y\n1.5;1.0;1\n2.5;1.0;2\n3.5;2.0;3\n", "utf-16"),
        ("a.txt", "speed\ttemp °C\ty\n1,5\t1,0\t1\n2,5\t1,0\t2\n3,5\t2,0\t3\n", "latin-1"),
        ("a.tsv", "speed\ttemp °C\ty\n1.5\t1.0\t1\n2.5\t1.0\t2\n3.5\t2.0\t3\n", "utf-8"),
        ("a.csv", "speed|temp °C|y\n1.5|1.0|1\n2.5|1.0|2\n3.5|2.0|3\n", "utf-8"),
        ("a.csv", "# 3.5.\n#\nspeed, temp °C, y\n1.5, 1.0, 1\n# x\n2.5,1.0,2\n3.5,2,3\n", "utf-8"),
        ("a.csv", '"speed","temp °C","y"\n"1.5","1","1"\n"2.5","1","2"\n"3.5","2","3"\n', "utf-8"),
        ("a.csv", '"speed","temp °C","y"\n"1",1.5,1,1\n"2",2.5,1,2\n"3",3.5,2,3\n', "utf-8"),
        ("a.csv", "speed,temp °C,y\n1.5,1,1,\n2.5,1,2,\n3.5,2,3,\n", "utf-8"),
        ("a.csv", "speed,temp °C,y,\n1.5,1,1,\n2.5,1,2,\n,,,\n3.5,2,3,\n", "utf-8"),
        ("a.csv", ",speed,temp °C,y,\n0,1.5,1,1,\n1,2.5,1,2,\n2,3.5,2,3,\n", "utf-8"),
        ("a.csv", "speed,temp °C,y,\n0,1.5,1,1,\n1,2.5,1,2,\n2,3.5,2,3,\n", "utf-8"),
        ("a.csv", "\ufeffsep=;\nspeed;temp °C;y\n1,5;1;1\n2,5;1;2\n3,5;2;3\n", "utf-8"),
        ("a.csv", "Bericht;;\n\nspeed;temp °C;y\nm/s2;°C;\n1,5;1;1\n2,5;1;2\n3,5;2;3\n", "utf-8"),
        ("a.csv", "Device;X\nDate;5/1\nspeed;temp °C;y\n1,5;1;1\n2,5;1;2\n3,5;2;3\n", "utf-8"),
        ("a.csv", "May\nspeed;temp °C;y\n1,5;1;1\n2,5;1;2\n3,5;2;3\n", "utf-8"),
        ("a.csv", 'speed,temp °C,y\n"1,50",1,1\n"2,5",1,2\n"3,5",2,3\n', "utf-8"),
        ("a.csv", "speed;temp °C;y\n1,5;1.0;1\n2,5;1.0;2\n3,5;2.0;3\n", "utf-8"),
        ("a.csv", "speed,temp °C,y\n1.5D0,1,1\n.25D+01,1,2\n3.5E0,2,3\n", "utf-8"),
    ],
)  # fmt: skip
def test_every_common_layout_gives_the_same_table(tmp_path, name, content, encoding):
    (tmp_path / name).write_bytes(content.encode(encoding))
    table = read_table(tmp_path / name)
    numbers = table.astype(float)[list(EXPECTED)]  # not the index that pandas writes
    pd.testing.assert_frame_equal(numbers, EXPECTED, check_dtype=False)


def test_a_header_behind_the_comment_sign_is_the_header(tmp_path):
    (tmp_path / "a.dat").write_text("# measured in May\n# x y t\n1 2 3\n4 5 6\n")
    table = read_table(tmp_path / "a.dat")
    assert (list(table), table["t"].tolist()) == (["x", "y", "t"], [3, 6])


def test_thousands_of_a_decimal_comma(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n1.234,5;2\n1,5;3\n")
    assert read_table(tmp_path / "a.csv")["x"].tolist() == [1234.5, 1.5]


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        (["1,234", "2,500.5"], [1234, 2500.5]),
        (["1,234,567", "8"], [1234567, 8]),
        (["1 234", "12\u202f345", "7"], [1234, 12345, 7]),
        (["\u22121.5", "2"], [-1.5, 2]),
        (["1,234", "2,5"], [1.234, 2.5]),
    ],
)
def test_numbers_in_every_spelling_are_numbers(tmp_path, written, numbers):
    (tmp_path / "a.csv").write_text("x|y\n" + "".join(f"{one}|1\n" for one in written))
    assert read_table(tmp_path / "a.csv")["x"].tolist() == numbers
    pytest.importorskip("openpyxl")
    pd.DataFrame({"x": written}).to_excel(tmp_path / "a.xlsx")
    assert read_table(tmp_path / "a.xlsx")["x"].tolist() == numbers


def test_a_comma_that_may_be_either_is_not_guessed(tmp_path):
    (tmp_path / "a.csv").write_text('x,y\n"1,234",1\n"2,345",2\n')
    notes = []
    assert read_table(tmp_path / "a.csv", notes)["x"].tolist() == ["1,234", "2,345"]
    assert "may be 1.234 or 1234" in notes[0]
    (tmp_path / "a.csv").write_text("x;y\n1,234;1,5\nn.d.;2,5\n2,345;1\n")  # y tells
    assert read_table(tmp_path / "a.csv")["x"].tolist() == ["1.234", "n.d.", "2.345"]


def test_a_first_row_of_gaps_and_labels_stays(tmp_path):
    (tmp_path / "a.csv").write_text("who,x\nann,\nbob,1\n")
    assert len(read_table(tmp_path / "a.csv")) == 2
    (tmp_path / "a.csv").write_text("who,x\nann,n.d.\nbob,1\n")
    notes = []
    assert len(read_table(tmp_path / "a.csv", notes)) == 1
    assert notes == ["the row below the header has no number ('n.d.'): left out"]


def test_what_was_guessed_is_said(tmp_path):
    (tmp_path / "a.csv").write_bytes("x;t °C\n1,5;2\n2,5;3\n".encode("latin-1"))
    notes = []
    read_table(tmp_path / "a.csv", notes)
    assert "Latin-1" in notes[0] and "decimal comma" in notes[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.docx", b"x", "'.docx' are not read, only .csv"),
        ("a.npy", b"x", r"'.npy' are not read, .*; peql.datasets.from_field makes a table"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"# nothing\n", "is empty"),
        ("a.csv", b"x,y\n", "has no rows"),
        ("a.csv", b"1,2\n3,4\n", "expected a header with names"),
        ("a.csv", b"x,y,x\n1,2,3\n", r"columns \['x'\] are there more than once"),
        (
            "a.csv",
            b"x,y\n1,2\n1,2,3,4\n",
            r"Expected 2 fields in line 3, saw 4 .*taken to be \['x'",
        ),
        ("a.csv", b"# a\nx,y\n# b\n1,2\n1,2,3,4\n", "Expected 2 fields in line 5, saw 4"),
        ("a.csv", b"PK\0\0\0", "zero bytes"),
        ("a.parquet", b"x,y\n1,2\n", "cannot be read as a table"),
    ],
)
def test_bad_files_are_explained_in_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        read_table(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_table(tmp_path / "none.csv")


def test_a_pipe_a_device_and_a_folder_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ValueError, match="pipe or device"):
        read_table(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize(
    ("name", "modules", "extra"),
    [("a.parquet", ["pyarrow", "fastparquet"], "parquet"), ("a.xlsx", ["openpyxl"], "excel")],
)
def test_what_to_install_is_named(tmp_path, monkeypatch, name, modules, extra):
    with zipfile.ZipFile(tmp_path / name, "w") as book:
        book.writestr("xl/workbook.xml", "")
    for module in modules:
        for loaded in [m for m in sys.modules if m.split(".")[0] == module]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'peql\[{extra}\]'") as raised:
        read_table(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_a_workbook_is_read_from_its_first_sheet(tmp_path):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        EXPECTED.to_excel(book, sheet_name="first", index=False)
        EXPECTED.to_excel(book, sheet_name="second", index=False)
    notes = []
    pd.testing.assert_frame_equal(
        read_table(tmp_path / "a.xlsx", notes), EXPECTED, check_dtype=False
    )
    assert notes == ["a.xlsx has 2 sheets: 'first', the first, is read"]
    pd.DataFrame([["x", "x"], [1, 2]]).to_excel(tmp_path / "b.xlsx", index=False, header=False)
    with pytest.raises(ValueError, match="more than once"):
        read_table(tmp_path / "b.xlsx")
    (tmp_path / "c.xlsx").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(ValueError, match="cannot be read as a table"):
        read_table(tmp_path / "c.xlsx")


# --- CSV that a spreadsheet opens ------------------------------------------------------------

HOSTILE = ["=cmd()", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "a;=1", "＝1", "\r=1"]


def test_no_cell_of_written_csv_is_a_formula(tmp_path):
    x = np.arange(float(len(HOSTILE))) - 3
    table = pd.DataFrame({"=cmd()": HOSTILE, "x": x}, index=pd.Index(HOSTILE))
    written = to_csv(table.rename_axis("@t"), index=True)
    cells = pd.read_csv(StringIO(written), header=None, dtype=str, keep_default_na=False)
    texts = [cell for cell in cells.to_numpy().ravel() if not cell.lstrip("-").strip("0123456789.")]
    for cell in set(cells.to_numpy().ravel()) - set(texts):
        for part in cell.split(";"):  # what a spreadsheet sees where ";" separates cells
            assert guard(part) == part, cell
    (tmp_path / "a.csv").write_text(to_csv(table), newline="")
    again = read_table(tmp_path / "a.csv")
    assert list(again) == ["=cmd()", "x"]
    assert again["=cmd()"].tolist() == [*HOSTILE[:-1], "' =1"]  # a return would begin a row
    assert again["x"].tolist() == table["x"].tolist()  # numbers stay numbers


# --- dates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "note"),
    [
        (["3/4/2024", "03/14/2024"], "'when' holds dates as month/day/year, '03/14/2024' for one"),
        (["4/3/2024", "14/03/2024"], "'when' holds dates as day/month/year, '14/03/2024' for one"),
        (["04-03-2024", "14-03-2024 00:00"], "day/month/year"),
        (["3/4/2024 12:00 AM", "3/14/2024 12:00 AM"], "month/day/year"),
        (["2024/03/04", "2024/3/14"], "year/month/day"),
        (["4 Mar 2024", "14 March 2024"], "'when' holds dates as text, '4 Mar 2024' for one"),
        (["04-Mar-2024", "14-Mar-2024"], "'when' holds dates as text"),
    ],
)
def test_dates_whose_order_is_seen_are_dates(tmp_path, written, note):
    (tmp_path / "a.csv").write_text("x,when\n" + "".join(f"1,{day}\n" for day in written) + "1,\n")
    notes = []
    when = read_table(tmp_path / "a.csv", notes)["when"]
    assert when.dropna().tolist() == [pd.Timestamp("2024-03-04"), pd.Timestamp("2024-03-14")]
    assert when.isna().tolist() == [False, False, True]
    assert note in notes[0]


@pytest.mark.parametrize(
    "written",
    [["03/04/2024", "04/05/2024"], ["14/03/2024", "03/14/2024"], ["3/14/24", "4/1/24"],
     ["14.03.24", "01.04.24"], ["2/30/2024", "3/14/2024"]],
)  # fmt: skip
def test_dates_that_are_not_clear_stay_text_and_it_is_said_what_to_do(tmp_path, written):
    (tmp_path / "a.csv").write_text("x,when\n" + "".join(f"1,{day}\n" for day in written))
    notes = []
    assert read_table(tmp_path / "a.csv", notes)["when"].tolist() == written
    assert notes == [
        f"'when' looks like dates, but {written[0]!r} is not clear: it stays text; "
        "write dates as 2024-12-31"
    ]


def test_a_header_may_be_a_number(tmp_path):
    pytest.importorskip("openpyxl")
    table = pd.DataFrame([["x", 2024, 2025], [1, "03/14/2024", "'=1"]])
    table.to_excel(tmp_path / "a.xlsx", index=False, header=False)
    read = read_table(tmp_path / "a.xlsx")
    assert read[2024].tolist() == [pd.Timestamp("2024-03-14")] and read[2025].tolist() == ["=1"]


def test_what_is_no_date_stays_as_it_is(tmp_path):
    texts = ["1/2", "north", "1.5 m", "12/31/2024b"]
    (tmp_path / "a.csv").write_text("x,what\n" + "".join(f"1,{text}\n" for text in texts))
    notes = []
    assert read_table(tmp_path / "a.csv", notes)["what"].tolist() == texts
    assert not notes


def test_times_are_hours(tmp_path):
    (tmp_path / "a.csv").write_text("x,when\n1,9:30\n1,\n1,10:00:36\n")
    notes = []
    hours = read_table(tmp_path / "a.csv", notes)["when"]
    assert hours.dropna().tolist() == pytest.approx([9.5, 10.01]) and hours.isna().sum() == 1
    assert notes == ["'when' holds times: '9:30' is read as 9.5 hours"]
    pytest.importorskip("openpyxl")
    moments = [datetime.time(9, 30), datetime.time(10, 0, 36)]
    pd.DataFrame({"when": moments}).to_excel(tmp_path / "a.xlsx", index=False)
    assert read_table(tmp_path / "a.xlsx")["when"].tolist() == pytest.approx([9.5, 10.01])
