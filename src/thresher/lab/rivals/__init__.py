"""The mechanisms that sample-and-threshold is compared with, each with its guarantee.

Every rival but TrieHH estimates the counts of the clients that take part from those clients' counts: the same sample
goes to every mechanism, and dividing by the sampling rate is the experiment's. Guarantees are for the clients in the
sample; amplification by sampling is not credited. These are simulations for experiments, drawn with seeded floating
point randomness: their results are never private releases.
"""

from thresher.lab.rivals.central_laplace import CentralLaplace
from thresher.lab.rivals.hadamard_response import HadamardResponse
from thresher.lab.rivals.not_private import NotPrivate
from thresher.lab.rivals.rival import Rival
from thresher.lab.rivals.shuffled_bernoulli import ShuffledBernoulli
from thresher.lab.rivals.stability_histogram import StabilityHistogram
from thresher.lab.rivals.trie_voting import TrieHH
from thresher.lab.rivals.unary_encoding import OptimisedUnaryEncoding

__all__ = [
    "CentralLaplace",
    "HadamardResponse",
    "NotPrivate",
    "OptimisedUnaryEncoding",
    "Rival",
    "ShuffledBernoulli",
    "StabilityHistogram",
    "TrieHH",
]
