"""Whether a round's configuration holds together, and whether the guarantees that it states are true.

Recomputing guarantees is the expensive part of checking a round: up to seconds for a plan of many rounds. Each plan is
therefore recomputed once and its verdict remembered, good or bad. Devices do not ask: they decide by their own tables.
"""

from __future__ import annotations

import functools

from thresher.errors import InvalidFormat, ThresherError
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Rates, check_contacted
from thresher.protocol.configurations import Guarantees, GuaranteesStated, GuaranteeStated, RoundConfiguration
from thresher.protocol.pieces import check_report_size
from thresher.protocol.rates import check_bounded
from thresher.questions import Question


@functools.lru_cache(maxsize=256)
def holds(plan: Plan, rates: Rates, stated: GuaranteesStated) -> bool:
    """Whether the plan's delta and the stated guarantees are what rates, threshold and rounds give.

    Guarantee: recomputed once for many rounds of this process, also where the answer is no.
    """
    try:
        plan.verify()
        true = Guarantees.of(plan, rates)
    except (ThresherError, TypeError, ValueError, ArithmeticError):
        return False
    return stated.contact_list == true.contact_list and stated.injected in (None, true.injected)


def read_configuration(configuration: RoundConfiguration) -> tuple[Question, Plan, Rates]:
    """The question, plan and rates of a configuration whose parts fit together, as far as that costs next to nothing.

    Guarantee: the rates' product is the plan's rate exactly, the analyst's guarantee is the plan's, and `injected` is
    stated from version 2 on. Where several values of a device count, each has a coin of its own. What is stated is not
    recomputed: `check_configuration` does. `InvalidFormat` otherwise.
    """
    try:
        question, plan, rates = configuration.asked, configuration.planned, configuration.rates
        check_bounded(plan)
        check_report_size(plan, configuration.bucket_size)
        check_contacted(plan, rates)
        consistent = (
            configuration.index < plan.rounds
            and rates.sampling_rate == plan.exact_rate
            and configuration.guarantees.analyst == GuaranteeStated.of(plan.stated)
            and (configuration.version == 1) == (configuration.guarantees.injected is None)
        )
    except (ThresherError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError):
        raise InvalidFormat("This round's configuration does not hold together.") from None
    if not consistent:
        raise InvalidFormat("This round's configuration states rates or guarantees that do not follow from its plan.")
    return question, plan, rates


def check_configuration(configuration: RoundConfiguration) -> tuple[Question, Plan, Rates]:
    """The question, plan and rates of a configuration that is consistent in itself.

    Guarantee: that of `read_configuration`, and the plan's delta and all stated guarantees have been recomputed.
    `InvalidFormat` otherwise.
    """
    question, plan, rates = read_configuration(configuration)
    if not holds(plan, rates, configuration.guarantees):
        raise InvalidFormat("This round's configuration states rates or guarantees that do not follow from its plan.")
    return question, plan, rates
