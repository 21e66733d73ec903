"""The next characters of texts that extend a known prefix, and known short texts again: `RecountedPrefixes(…)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting
from thresher.questions.normal_form import END, normal
from thresher.questions.prefixes import Prefixes

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True, slots=True)
class RecountedPrefixes(Prefixes):
    """`Prefixes`, and beside them whole texts that an earlier round has found.

    A unit whose text is one of `texts` answers with that text, marked with `END`. Such a text is shorter than `known`,
    so it extends no parent: a unit has one bucket at most, as with `Prefixes`.

    Edge cases: it is a kind of its own. A device that does not know it must refuse the round. If it answered as to
    `Prefixes`, the known texts would be counted too low.
    """

    texts: frozenset[str] = frozenset()
    kind = "recounted_prefixes"

    def __post_init__(self) -> None:
        # Not super(): a class with slots is made twice, and super() would look for the first of them.
        Prefixes.__post_init__(self)
        texts: frozenset[Any] = frozenset(self.texts)
        if not all(isinstance(text, str) and len(text) < self.known and normal(text) == text for text in texts):
            raise InvalidSetting("texts", "must be whole texts that are shorter than the known prefixes")
        object.__setattr__(self, "texts", texts)

    def bucket(self, value: Any) -> Any:
        """The known text, or the prefix that this text votes for."""
        text = normal(value)
        if isinstance(text, str) and text in self.texts:
            return text + END
        return Prefixes.bucket(self, value)

    def _extends(self, value: nw.Expr) -> nw.Expr:
        extends = Prefixes._extends(self, value)
        return extends | value.is_in(sorted(self.texts)) if self.texts else extends
