"""The formulas of the paper, each under its own name and with its place in the text.

The paper is Bharadwaj and Cormode, "Sample and Threshold Differential Privacy: Histograms and applications".
Functions return the valid form of a statement; where the printed form differs and is worth comparing with, a
function ending in `_as_printed` returns it. docs/privacy.md, section 11, lists every statement with its
verdict.

    symbol   name               symbol   name               symbol   name
    p_s      sampling_rate      k, W     count              φ        frequency
    τ        threshold          v        sampled            γ        relative_error
    ε, δ     epsilon, delta     n        population         β        failure (3.3), branching (4.2)
    α        alpha              m        sample_size        L, h     levels, rounds
"""

from __future__ import annotations

from thresher.privacy.paper.accuracy import (
    contact_failure_upper,
    contact_size,
    estimable_frequency,
    estimable_frequency_as_printed,
    estimation_failure_upper,
    omission_upper,
    rounding_error,
    sample_size_for_estimate,
    sampling_error_scale,
    shuffle_error_scale,
)
from thresher.privacy.paper.applications import (
    advanced_composition_as_printed,
    hierarchy_error,
    hierarchy_error_as_printed,
    hierarchy_probes,
    hierarchy_resolution,
    quantile_rank_error_scale,
    quantile_search_guarantee,
    quantile_value_error,
    triehh_guarantee,
)
from thresher.privacy.paper.guarantees import (
    alpha_from_threshold,
    c_alpha,
    c_alpha_replace,
    delta_from_alpha,
    epsilon_from_rate,
    fixed_size_delta_lower,
    kl_divergence,
    ratio,
    sampling_rate_from_alpha,
    theorem_1_binomial_delta,
    theorem_1_binomial_delta_as_printed,
    theorem_1_delta,
    threshold_from_delta,
)
from thresher.privacy.paper.rules import Rule, best_rule, rate_for_threshold, rule

__all__ = [
    "Rule",
    "advanced_composition_as_printed",
    "alpha_from_threshold",
    "best_rule",
    "c_alpha",
    "c_alpha_replace",
    "contact_failure_upper",
    "contact_size",
    "delta_from_alpha",
    "epsilon_from_rate",
    "estimable_frequency",
    "estimable_frequency_as_printed",
    "estimation_failure_upper",
    "fixed_size_delta_lower",
    "hierarchy_error",
    "hierarchy_error_as_printed",
    "hierarchy_probes",
    "hierarchy_resolution",
    "kl_divergence",
    "omission_upper",
    "quantile_rank_error_scale",
    "quantile_search_guarantee",
    "quantile_value_error",
    "rate_for_threshold",
    "ratio",
    "rounding_error",
    "rule",
    "sample_size_for_estimate",
    "sampling_error_scale",
    "sampling_rate_from_alpha",
    "shuffle_error_scale",
    "theorem_1_binomial_delta",
    "theorem_1_binomial_delta_as_printed",
    "theorem_1_delta",
    "threshold_from_delta",
    "triehh_guarantee",
]
