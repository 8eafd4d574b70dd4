"""Gates: conditions on results, which fail a command in CI.

    gate   := [ model ":" ] metric [ "[" slice "=" group "]" ] ( operator bound | claim )
    bound  := number | file | file ("-" | "+" | "*") number
    claim  := ( "not worse than" file [ "by" margin ] | "better than" file ) [ "at" level "%" ]
    margin := number | number "%"

`nDCG@10 >= 0.31`, `als: Recall@20 >= baseline.json * 0.98`, `Recall@20[gender=F] > 0.2`,
`nDCG@10 not worse than baseline.json by 2%`. A file is a saved result, and means its value of the
same metric, in the same group of users or relevant items. A gate without a model applies to every
model.

An operator compares two numbers. A claim is a one-sided test over the users that both results
share, so that it accounts for the noise of the difference.
"""

from weft.config.gates.grammar import Gate, parse_gate
from weft.config.gates.judgement import judge_gates, prepare_gates
from weft.config.gates.outcomes import GateOutcome
from weft.config.gates.summary import to_junit, to_summary

__all__ = [
    "Gate",
    "GateOutcome",
    "judge_gates",
    "parse_gate",
    "prepare_gates",
    "to_junit",
    "to_summary",
]
