"""Text → checked documents, or one error with every mistake in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from coterie.cpi.contract import Capabilities
from coterie.manifest.document import Loaded, Mistake, invalid
from coterie.manifest.fit import fit
from coterie.manifest.rules import FormsOf, Report, check_config, check_deployment, check_pair
from coterie.manifest.rules.report import mistake_of
from coterie.manifest.schema import CloudConfig, Deployment, Part
from coterie.manifest.tree import Fields, Flaw, Spoilt, read

T = TypeVar("T", bound=Part)
Clouds = Mapping[str, Capabilities]


def load_deployment(text: str, file: str) -> Loaded[Deployment]:
    """A manifest that is right in itself; raises InvalidDocument with all its mistakes."""
    return _require_valid(draft(Deployment, text, file, check_deployment))


def load_cloud_config(
    text: str, file: str, *, drivers: Collection[str] | None = None, forms_of: FormsOf | None = None
) -> Loaded[CloudConfig]:
    """A cloud config that is right in itself. `drivers`: the installed ones; None leaves their names unchecked.
    `forms_of`: what can be written for each; None leaves that to the drivers."""
    return _require_valid(draft(CloudConfig, text, file, partial(check_config, drivers=drivers, forms_of=forms_of)))


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

    `in_force`: the config was accepted earlier, so its driver properties matter only where the manifest uses them.
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


def _require_valid(made: Draft[T]) -> Loaded[T]:
    if made.mistakes or made.loaded is None:
        raise invalid(made.mistakes)
    return made.loaded


@dataclass(frozen=True, slots=True)
class Draft(Generic[T]):
    """A document as far as it could be read. `loaded` None: not readable. With mistakes: only for further checks."""

    loaded: Loaded[T] | None
    mistakes: list[Mistake]
    spoilt: Spoilt


def draft(part: type[T], text: str, file: str, rules: Callable[[Report[T]], None]) -> Draft[T]:
    """Read, fit to the schema, check against the document's own rules; each as far as possible."""
    reading = read(text)
    value, misfits = fit(part, reading.root) if reading.root else (None, [])
    flaws = [*reading.flaws, *_new_flaws(misfits, reading.flaws)]
    fields = Fields(reading.partial)
    mistakes = [mistake_of(flaw, file, fields) for flaw in flaws]
    spoilt = Spoilt(flaws)
    if value is None or reading.root is None:
        return Draft(None, mistakes, spoilt)
    loaded = Loaded(value, file, reading.root)
    report = Report(loaded, spoilt)
    rules(report)
    return Draft(loaded, mistakes + report.mistakes, spoilt)


def _new_flaws(misfits: list[Flaw], before: list[Flaw]) -> list[Flaw]:
    """Misfits that are not just consequences of a value that could not be read."""
    spoilt = Spoilt(before)
    return [flaw for flaw in misfits if not spoilt.touches(flaw.loc)]
