"""Settings: precedence, origins, and errors that name the place to mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.errors import UsageError
from coterie.settings import all_settings, load


def env(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), **more}


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return file


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = write(tmp_path, 'workers = 3\nname = "from-file"\noutput = "json"\n')
    given = env(tmp_path, COTERIE_CONFIG=str(file), COTERIE_WORKERS="4", COTERIE_OUTPUT="table")

    found = load({"output": "json", "workers": None}, given)

    assert (found["output"], found.origin("output")) == ("json", "flag --output")
    assert (found["workers"], found.origin("workers")) == (4, "environment COTERIE_WORKERS")
    assert (found["name"], found.origin("name")) == ("from-file", f"file {file}")
    assert (found["color"], found.origin("color")) == ("auto", "default")


def test_the_default_file_is_where_xdg_says(tmp_path: Path) -> None:
    folder = tmp_path / "conf" / "coterie"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("workers = 7\n")

    found = load({}, env(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "conf")))

    assert found["workers"] == 7
    assert found.files == ((folder / "config.toml", True),)


@pytest.mark.parametrize(
    ("name", "flag"), [("conductor_group", "--group"), ("pin_release_version", "--pin-release-version")]
)
def test_a_wrong_flag_is_named_as_it_was_written(tmp_path: Path, name: str, flag: str) -> None:
    with pytest.raises(UsageError, match=f"flag {flag}"):
        load({name: "a b"}, env(tmp_path))


def test_a_file_that_is_not_there_is_told_as_looked_at(tmp_path: Path) -> None:
    found = load({}, env(tmp_path))
    assert found.files == ((tmp_path / ".config" / "coterie" / "config.toml", False),)


def test_state_follows_xdg_and_ignores_a_relative_one(tmp_path: Path) -> None:
    assert load({}, env(tmp_path, XDG_STATE_HOME="/x")).state == Path("/x/coterie")
    assert load({}, env(tmp_path, XDG_STATE_HOME="x")).state == tmp_path / ".local/state/coterie"


def test_no_color_turns_colours_off_but_a_flag_wins(tmp_path: Path) -> None:
    assert load({}, env(tmp_path, NO_COLOR="1"))["color"] == "never"
    assert load({"color": "always"}, env(tmp_path, NO_COLOR="1"))["color"] == "always"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("COTERIE_WORKERS", "many", "whole number from 1 to 1024"),
        ("COTERIE_WORKERS", "0", "whole number from 1 to 1024"),
        ("COTERIE_OUTPUT", "xml", "one of table, json"),
        ("COTERIE_DIRECTOR", "director:8080", "http://HOST:PORT"),
        ("COTERIE_LISTEN", "8080", "HOST:PORT"),
        ("COTERIE_LISTEN", "host:99999", "HOST:PORT"),
        ("COTERIE_DATABASE", "mysql://x", "sqlite:/// or postgresql://"),
        ("COTERIE_IDLE_MINUTES", "-1", "not negative"),
        ("COTERIE_LOOK_INTERVAL", "nan", "not negative"),
        ("COTERIE_AUTO_ANTI_AFFINITY", "perhaps", "true or false"),
        ("COTERIE_NAME", "  ", "not empty"),
        ("COTERIE_EXEC_PATHS", "/usr/bin/cpi,cpi", "full paths"),
    ],
)
def test_a_bad_value_names_the_variable_and_what_it_must_be(
    tmp_path: Path, variable: str, value: str, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load({}, env(tmp_path, **{variable: value}))
    assert f"environment {variable}" in caught.value.what
    assert words in caught.value.what
    assert caught.value.remedy


def test_a_bad_value_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "workers = true\n")
    with pytest.raises(UsageError, match="whole number") as caught:
        load({}, env(tmp_path, COTERIE_CONFIG=str(file)))
    assert str(file) in caught.value.what


@pytest.mark.parametrize(("text", "words"), [("wrokers = 3", "wrokers"), ("workers = ", "cannot read")])
def test_a_bad_file_is_refused_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(UsageError, match=words) as caught:
        load({}, env(tmp_path, COTERIE_CONFIG=str(file)))
    assert str(file) in caught.value.what
    assert caught.value.remedy


def test_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    given = env(
        tmp_path, COTERIE_TOKEN="hunter2", COTERIE_DATABASE="postgresql://me:hunter2@db/coterie?password=hunter2"
    )
    found = load({}, given)
    assert found["token"] == "hunter2"
    assert "hunter2" not in str(found.facts())
    assert "db/coterie" in str(found.facts())


def test_a_bad_url_with_a_password_is_refused_without_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load({}, env(tmp_path, COTERIE_DIRECTOR="http://me:hunter2@host"))
    assert "hunter2" not in str(caught.value.facts())


def test_every_setting_has_words_for_people() -> None:
    assert all(setting.help for setting in all_settings({}))
