import bz2
import gzip
import json
import lzma

import pytest

from everlearn.errors import UserError
from everlearn.streams.tables import LONGEST_FIELD, Row, Skipped, csv_rows, labelled_rows, lines


def read(path, **options):
    skipped = Skipped(path.name)
    rows = list(labelled_rows(path, "text", "label", skipped=skipped, **options))
    return rows, skipped


def refused(path, **options):
    with pytest.raises(UserError) as caught:
        read(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_csv_columns_are_found_by_name(write):
    path = write("x.csv", "id,label, text \n7,a,one\n8,b,two\n")
    assert read(path)[0] == [Row(2, "one", "a"), Row(3, "two", "b")]


def test_tsv_is_split_at_tabs(write):
    assert read(write("x.tsv", "text\tlabel\none, two\ta\n"))[0] == [Row(2, "one, two", "a")]


def test_a_task_column_is_read_where_asked_for(write):
    path = write("x.csv", "text,label,topic\none,a,t\n")
    assert list(labelled_rows(path, "text", "label", "topic", skipped=Skipped("x"))) == [Row(2, "one", "a", "t")]


def test_jsonl_values_become_text(write):
    values = ["s", 3, 1.0, True, False, None, float("nan"), " x "]
    path = write("x.jsonl", "".join(json.dumps({"text": "t", "label": value}) + "\n\n" for value in values))
    rows, skipped = read(path)
    assert [row.label for row in rows] == ["s", "3", "1.0", "true", "false", "x"]
    assert [row.line for row in rows] == [1, 3, 5, 7, 9, 15]
    assert skipped.lines == [11, 13]


def test_half_a_surrogate_pair_becomes_a_character_that_can_be_written(write):
    rows, _ = read(write("x.jsonl", '{"text": "a\\ud83d", "label": 1}\n'))
    assert rows[0].text.encode() == b"a?"


@pytest.mark.parametrize(
    ("ending", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
class TestCompressed:
    CONTENT = "text,label\n" + "".join(f"text {number} {number**5},{number % 7}\n" for number in range(5000))

    def test_is_read(self, write, ending, compress):
        assert len(read(write(f"x.csv{ending}", compress(self.CONTENT.encode())))[0]) == 5000

    def test_cut_short_is_explained(self, write, ending, compress):
        path = write(f"x.csv{ending}", compress(self.CONTENT.encode())[:-200])
        assert "cut short or damaged" in refused(path)

    def test_damaged_is_explained(self, write, ending, compress):
        good = compress(self.CONTENT.encode())
        for start in (12, len(good) // 2):
            path = write(f"x.csv{ending}", good[:start] + b"\xff" * 40 + good[start + 40 :])
            assert "cut short or damaged" in refused(path)

    def test_not_compressed_at_all_is_explained(self, write, ending, compress):
        assert "cut short or damaged" in refused(write(f"x.csv{ending}", self.CONTENT))


def test_byte_order_mark_is_no_part_of_the_first_column(write):
    assert read(write("x.csv", "text,label\none,a\n".encode("utf-8-sig")))[0] == [Row(2, "one", "a")]
    assert read(write("x.jsonl", '{"text": "one", "label": "a"}'.encode("utf-8-sig")))[0] == [Row(1, "one", "a")]


def test_newlines_in_quotes_belong_to_the_field(write):
    path = write("x.csv", 'text,label\n"one\r\ntwo",a\nthree,b\n')
    assert read(path)[0] == [Row(3, "one\r\ntwo", "a"), Row(4, "three", "b")]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems(write, end):
    assert read(write("x.csv", f"text,label{end}one,a{end}two,b{end}"))[0] == [Row(2, "one", "a"), Row(3, "two", "b")]


def test_nul_bytes_are_left_out(write):
    assert read(write("x.csv", b"text,label\no\0ne,a\n"))[0] == [Row(2, "one", "a")]
    assert read(write("x.jsonl", b'{"text": "o\0ne", "label": "a"}\n'))[0] == [Row(1, "one", "a")]


def test_long_texts_are_read(write):
    assert len(read(write("x.csv", f"text,label\n{'x' * 500_000},a\n"))[0][0].text) == 500_000


def test_a_quote_left_open_is_not_silently_endless(write):
    message = refused(write("x.csv", 'text,label\n"one,a\n' + "two,b\n" * (LONGEST_FIELD // 6 + 1)))
    assert "quote" in message


def test_blank_lines_are_passed_over(write):
    assert [row.line for row in read(write("x.csv", "text,label\n\none,a\n\n\ntwo,b\n"))[0]] == [3, 6]


def test_rows_without_text_or_label_are_skipped_and_counted(write):
    rows, skipped = read(write("x.csv", "text,label\none,a\n,a\ntwo,b\n  ,b\nthree\n"))
    assert [row.text for row in rows] == ["one", "two"]
    assert skipped.notes() == ["skipped 3 rows of x.csv without text or label (lines 3, 5, 6)"]


def test_only_the_first_lines_are_named(write):
    _, skipped = read(write("x.csv", "text,label\n" + ",a\n" * 1200 + "one,a\n"))
    assert skipped.notes() == ["skipped 1,200 rows of x.csv without text or label (lines 2, 3, 4, 5, 6, ...)"]


def test_nothing_skipped_nothing_said(write):
    assert read(write("x.csv", "text,label\none,a\n"))[1].notes() == []


def test_strict_stops_at_the_first_incomplete_row(write):
    path = write("x.csv", "text,label\none,a\ntwo,\n,b\n")
    message = refused(path, strict=True)
    assert "line 3" in message
    assert "'label'" in message


def test_missing_file(tmp_path):
    assert "there is no file" in refused(tmp_path / "x.csv")


def test_folder_instead_of_file(tmp_path):
    (tmp_path / "x.csv").mkdir()
    assert "is a folder" in refused(tmp_path / "x.csv")


def test_unknown_format(write):
    assert "has to end in one of .csv, .tsv, .jsonl" in refused(write("x.txt", "text"))


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
@pytest.mark.parametrize("content", ["", "\n \n", b"\xef\xbb\xbf"])
def test_empty_file(write, name, content):
    assert "is empty" in refused(write(name, content))


def test_missing_column_of_csv(write):
    message = refused(write("x.csv", "txt,label,id\none,a,1\n"))
    assert "no column 'text'" in message
    assert "did you mean 'txt'?" in message
    assert "txt, label, id" in message


def test_missing_column_of_jsonl(write):
    message = refused(write("x.jsonl", '{"text": "one", "labels": 1}\n{"text": "two", "id": 2}\n'))
    assert "no column 'label': did you mean 'labels'? Its columns are: text, labels, id." in message


def test_a_key_that_one_object_lacks_is_a_missing_value(write):
    rows, skipped = read(write("x.jsonl", '{"text": "one"}\n{"text": "two", "label": 2}\n'))
    assert rows == [Row(2, "two", "2")]
    assert skipped.count == 1


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_invalid_utf8(write, name):
    first = b"text,label\n" if name == "x.csv" else b'{"text": "one", "label": 1}\n'
    message = refused(write(name, first + "größe,a\n".encode("latin-1")))
    assert "line 2 of" in message
    assert "UTF-8" in message


@pytest.mark.parametrize("line", ['{"text": ', "text,label", '{"text": 1' + "0" * 5000 + "}", "[" * 100_000])
def test_invalid_json(write, line):
    message = refused(write("x.jsonl", f'{{"text": "one", "label": 1}}\n{line}\n'))
    assert "line 2 of" in message
    assert "not valid JSON" in message


def test_json_that_is_no_object(write):
    assert "line 1 of" in refused(write("x.jsonl", '["text", "label"]\n'))
    assert "not a JSON object" in refused(write("x.jsonl", "3\n"))


def test_json_value_that_is_no_text(write):
    message = refused(write("x.jsonl", '{"text": "one", "label": ["a", "b"]}\n'))
    assert "'label' in line 1" in message


def test_csv_rows_keeps_the_first_row(write):
    assert list(csv_rows(write("x.csv", '1,"a ""b""",c\n2,d,e\n'))) == [(1, ["1", 'a "b"', "c"]), (2, ["2", "d", "e"])]


def test_lines_are_read_one_at_a_time(write):
    path = write("x.jsonl", b"good\n\xff\xfe\n")
    assert next(lines(path)) == "good\n"
