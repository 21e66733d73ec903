"""Questions: from what a unit holds to the bucket it is counted in. One file a kind of question."""

from __future__ import annotations

from thresher.questions.below import Below
from thresher.questions.bins import MOST_BINS, Bins
from thresher.questions.cells import Cells
from thresher.questions.conditions import Among, Between, Where
from thresher.questions.dates import Dates, Every
from thresher.questions.filtered import Filtered
from thresher.questions.joint import Joint
from thresher.questions.normal_form import END, normal
from thresher.questions.points import MOST_POINTS, Points
from thresher.questions.prefixes import LONGEST_PREFIX, Prefixes
from thresher.questions.question import Bucket, Part, Question, from_dict, kinds
from thresher.questions.recounted_prefixes import RecountedPrefixes
from thresher.questions.values import Values

__all__ = [
    "END",
    "LONGEST_PREFIX",
    "MOST_BINS",
    "MOST_POINTS",
    "Among",
    "Below",
    "Between",
    "Bins",
    "Bucket",
    "Cells",
    "Dates",
    "Every",
    "Filtered",
    "Joint",
    "Part",
    "Points",
    "Prefixes",
    "Question",
    "RecountedPrefixes",
    "Values",
    "Where",
    "from_dict",
    "kinds",
    "normal",
]
