import stat
from pathlib import Path

import pytest
from pydantic import ValidationError

from horizon_app.control.access import (
    Access,
    make_missing_token,
    new_token,
    remove_token,
    token_is_needed,
    token_path,
)
from horizon_app.settings import AppSettings

SECRET = "a-token-of-one-machine"


@pytest.mark.parametrize(
    ("host", "needed"),
    [
        ("127.0.0.1", False),
        ("127.8.0.1", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("", True),
        ("192.168.1.7", True),
        ("station.lan", True),
    ],
)
def test_token_is_needed_wherever_others_can_reach_the_server(host: str, needed: bool) -> None:
    assert token_is_needed(AppSettings(host=host)) is needed


def test_token_is_needed_on_loopback_where_it_is_asked_for_or_given() -> None:
    assert token_is_needed(AppSettings(require_token=True))
    assert token_is_needed(AppSettings.model_validate({"token": SECRET}))


def test_missing_token_is_made_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    settings = AppSettings(home=tmp_path, host="0.0.0.0")
    token = make_missing_token(settings)
    assert token is not None and len(token) >= 43  # 256 bits
    assert make_missing_token(settings) is None
    assert stat.S_IMODE(token_path(tmp_path).stat().st_mode) == 0o600
    assert all(token not in path.read_text() for path in tmp_path.iterdir())
    assert Access(settings).admits(token)
    assert not Access(settings).admits(token[:-1])


@pytest.mark.parametrize("settings", [{"host": "127.0.0.1"}, {"host": "0.0.0.0", "token": SECRET}])
def test_token_is_not_made_where_none_is_needed_or_one_is_given(settings: dict[str, str], tmp_path: Path) -> None:
    assert make_missing_token(AppSettings.model_validate({**settings, "home": tmp_path})) is None
    assert not token_path(tmp_path).exists()


def test_given_token_counts_and_is_not_written_down(tmp_path: Path) -> None:
    old = new_token(tmp_path)
    access = Access(AppSettings.model_validate({"home": tmp_path, "token": SECRET}))
    assert access.admits(SECRET)
    assert not access.admits(old)
    assert all(SECRET not in path.read_text() for path in tmp_path.iterdir())


def test_replaced_token_is_noticed_by_who_has_seen_the_old_one(tmp_path: Path) -> None:
    access = Access(AppSettings(home=tmp_path, host="0.0.0.0"))
    assert not access.admits("")
    old = new_token(tmp_path)
    assert access.admits(old)
    new = new_token(tmp_path)
    assert (access.admits(old), access.admits(new)) == (False, True)
    assert remove_token(tmp_path)
    assert not access.admits(new)
    assert not remove_token(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"sha256": "zz"}', '{"sha256": 5}', "{}"])
def test_damaged_token_file_lets_nobody_in(content: str, tmp_path: Path) -> None:
    token_path(tmp_path).write_text(content)
    access = Access(AppSettings(home=tmp_path, host="0.0.0.0"))
    assert not access.admits("")
    assert not access.admits("zz")


def test_token_file_of_others_is_replaced_and_not_written_into(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (tmp_path / ".token.json.partial").symlink_to(elsewhere)
    new_token(tmp_path)
    assert elsewhere.read_text() == "untouched"
    assert not token_path(tmp_path).is_symlink()


@pytest.mark.parametrize(
    "token", ["short", "with space in the middle", "x" * 300, "line\nbreak-line-break", "a/b=c" * 5]
)
def test_token_that_no_header_or_subprotocol_can_carry_is_refused_without_saying_it(token: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AppSettings.model_validate({"token": token})
    assert token not in str(refused.value)
