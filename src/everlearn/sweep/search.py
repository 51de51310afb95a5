"""What a row's `search:` may hold: settings, and the values that `everlearn tune` tries for each."""

from collections.abc import Mapping, Sequence
from typing import Any

from everlearn.config import check_setting
from everlearn.errors import UserError
from everlearn.sweep.source import Place, Source

FIXED = {
    "order": "settings are chosen on one order: name it in `orders:`",
    "seed": "every trial is run with the same seeds: list them in `seeds:`",
    "split": "settings are chosen on validation data: leave it out",
    "method": "what is chosen is kept by method: give each method a row of its own",
}
"""What is never searched for, and why."""


def read_search(source: Source, place: Place, content: Any) -> Mapping[str, Sequence[Any]]:
    """The values to try by setting, each of which can work by itself."""
    if not isinstance(content, dict) or not all(isinstance(values, list) and values for values in content.values()):
        raise source.error(place, "search holds `setting: [value, value, …]` lines.")
    for name, values in content.items():
        if name in FIXED:
            raise source.error((*place, name), f"{name} cannot be searched for: {FIXED[name]}.")
        seen = set()
        for number, value in enumerate(values):
            try:
                meant = check_setting(name, value)
            except UserError as error:
                raise source.error((*place, name, number), str(error)) from error
            if meant in seen:
                raise source.error((*place, name, number), f"{name} {value} stands here twice: leave one of them out.")
            seen.add(meant)
    return content
