import io

import pytest

from horizon_app.data import lines
from horizon_app.data.lines import Line, NotUtf8, read_chunks, read_lines


def lines_of(content: bytes) -> list[str]:
    return [line.text if isinstance(line, Line) else f"{line.line}: {line}" for line in read_lines(io.BytesIO(content))]


def test_lines_with_mark_and_windows_ends_are_those_without() -> None:
    assert lines_of(b"\xef\xbb\xbfone\r\n\r\n\xe4\xb8\xad\r\n") == ["one", "", "中"]


def test_line_that_is_not_utf8_is_named_by_line_and_offset_and_the_others_are_read() -> None:
    content = b"\xef\xbb\xbfone\ntw\xff\nthree"
    assert content[9] == 0xFF
    assert lines_of(content) == ["one", "2: byte 0xff at offset 9 of the file is not UTF-8", "three"]
    assert lines_of(b"\xef\xbb\xbfab\xff") == ["1: byte 0xff at offset 5 of the file is not UTF-8"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_named_and_nothing_else_is_read(encoding: str) -> None:
    content = "one\ntwo".encode(encoding)
    (line,) = read_lines(io.BytesIO(content))
    assert isinstance(line, NotUtf8)
    assert line.whole_file
    assert "UTF-16" in str(line) or "UTF-32" in str(line)
    with pytest.raises(NotUtf8, match="UTF-"):
        list(read_chunks(io.BytesIO(content)))


def test_chunks_are_the_text_wherever_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a\n中文 🌍\n" * 30
    for size in (1, 2, 3, 7, 1000):
        monkeypatch.setattr(lines, "_CHUNK_BYTES", size if size > 2 else 3)
        assert "".join(read_chunks(io.BytesIO(b"\xef\xbb\xbf" + text.encode()))) == text


def test_bad_byte_in_a_chunk_is_named_by_line_and_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"\xef\xbb\xbf" + "é\nüß\n".encode() + b"abc\xe9"
    for size in (3, 4, 5, 1000):
        monkeypatch.setattr(lines, "_CHUNK_BYTES", size)
        with pytest.raises(NotUtf8) as caught:
            list(read_chunks(io.BytesIO(content)))
        assert caught.value.line == 3
        assert f"offset {len(content) - 1} " in str(caught.value)


def test_line_that_no_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_LINE_BYTES", 10)
    assert "too long for a row" in lines_of(b"short\n" + b"x" * 11 + b"\n")[1]


@pytest.mark.parametrize(
    ("text", "encoding", "hint"),
    [
        ("你好世界", "gb18030", "GB18030"),
        ("café déjà vu’s", "cp1252", "WINDOWS-1252"),
        ("naïve,,résumé", "latin-1", "WINDOWS-1252"),
        ("こんにちは世界", "shift_jis", "SHIFT_JIS"),
        ("こんにちは世界", "euc-jp", "EUC-JP"),
        ("안녕하세요 세계", "euc-kr", "EUC-KR"),
        ("привет, мир", "cp1251", "WINDOWS-1251"),
    ],
)
def test_likely_encoding_is_named(text: str, encoding: str, hint: str) -> None:
    (line,) = read_lines(io.BytesIO(f'{{"text": "{text}"}}'.encode(encoding)))
    assert isinstance(line, NotUtf8)
    assert f"iconv -f {hint} " in line.fix
