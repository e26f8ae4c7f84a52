"""The check of words finds what it shall find, and nothing in `src`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import words


@pytest.mark.parametrize(
    "text",
    [
        "def deleted(group):\n    group.delete()\n",
        "def _made_vm(cloud):\n    with cloud as one:\n        return one\n",
        "async def told(caller):\n    await caller.read()\n",
        "class Desk:\n    pass\n",
        "def guard_for(vm):\n    return vm\n",
        "x = 1  # whoever reads this\n",
        'def f():\n    """Nobody may call it."""\n',
    ],
)
def test_it_finds_a_word_that_is_not_plain(text: str) -> None:
    assert list(words.check(text, Path("x.py")))


@pytest.mark.parametrize(
    "text",
    [
        "def delete_group(group):\n    group.delete()\n",
        "def sorted_names(names):\n    return sorted(names)\n",
        "class A:\n    @property\n    def closed(self):\n        with self.lock:\n            return self._closed\n",
        "def read(file):\n    with file as one:\n        return one\n",
        'def message():\n    return "nobody"\n',
    ],
)
def test_it_accepts_verbs_and_answers(text: str) -> None:
    assert not list(words.check(text, Path("x.py")))


def test_every_file_uses_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main() == 0, capsys.readouterr().out
