"""The way in: text → checked documents, or one error with every mistake in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TypeVar

from coterie.cpi.contract import Capabilities
from coterie.manifest.draft import Draft, draft
from coterie.manifest.loaded import Loaded
from coterie.manifest.mistake import Mistake, invalid
from coterie.manifest.rules import FormsOf, Report, check_config, check_deployment, check_pair
from coterie.manifest.schema import CloudConfig, Deployment, Part

T = TypeVar("T", bound=Part)
Clouds = Mapping[str, Capabilities]


def load_deployment(text: str, file: str) -> Loaded[Deployment]:
    """A manifest that is right in itself; raises InvalidDocument with all its mistakes."""
    return _finished(draft(Deployment, text, file, check_deployment))


def load_cloud_config(
    text: str, file: str, *, drivers: Collection[str] | None = None, forms_of: FormsOf | None = None
) -> Loaded[CloudConfig]:
    """A cloud config that is right in itself. `drivers`: the installed ones; None leaves their names unchecked.
    `forms_of`: what can be written for each; None leaves that to the drivers."""
    return _finished(draft(CloudConfig, text, file, partial(check_config, drivers=drivers, forms_of=forms_of)))


def check(
    deployment: Loaded[Deployment],
    config: Loaded[CloudConfig],
    capabilities: Clouds | None = None,
    *,
    auto_anti_affinity: bool = False,
) -> list[Mistake]:
    """What is wrong between two documents that are each right in themselves; sorted, empty if nothing.

    `capabilities`: by name of cloud; policies are checked for those. `auto_anti_affinity`: the Director's default.
    """
    return check_pair(Report(deployment), Report(config), capabilities, auto_anti_affinity=auto_anti_affinity)


def load_both(
    deployment: tuple[str, str],
    config: tuple[str, str],
    capabilities: Clouds | None = None,
    *,
    drivers: Collection[str] | None = None,
    forms_of: FormsOf | None = None,
    in_force: bool = False,
    auto_anti_affinity: bool = False,
) -> tuple[Loaded[Deployment], Loaded[CloudConfig]]:
    """Both documents, each given as (text, file), with all mistakes of and between them in one error.

    `in_force`: the config was taken earlier, so what it says for drivers matters only as far as the manifest uses it.
    """
    wanted = draft(Deployment, *deployment, check_deployment)
    rules = partial(check_config, drivers=drivers, forms_of=None if in_force else forms_of)
    offered = draft(CloudConfig, *config, rules)
    mistakes = {*wanted.mistakes, *offered.mistakes}
    if wanted.loaded and offered.loaded:
        reports = Report(wanted.loaded, wanted.spoilt), Report(offered.loaded, offered.spoilt)
        mistakes |= {*check_pair(*reports, capabilities, auto_anti_affinity=auto_anti_affinity, forms_of=forms_of)}
    if mistakes or not wanted.loaded or not offered.loaded:
        raise invalid(mistakes)
    return wanted.loaded, offered.loaded


def _finished(made: Draft[T]) -> Loaded[T]:
    if made.mistakes or made.loaded is None:
        raise invalid(made.mistakes)
    return made.loaded
