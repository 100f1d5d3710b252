"""The checklist: the paper's claims in the paper's order, each with a verdict."""

from claim import HELD, NOT_HELD, UNTESTED
from claims_kernels import CLOSE, NO_IMPACT, UNAFFECTED, abstract_claims, exact_claims, grid_claims, sweep_claims
from claims_search import appendix_claims, search_claims, within_sixteen
from claims_training import MANY, SAME_SHARE, kept_accuracy, training_claims


def checklist(study, kernels, training, steps, table4):
    listed = [
        *abstract_claims(kernels),
        *exact_claims(kernels),
        *search_claims(study),
        *grid_claims(kernels),
        *training_claims(training, steps, table4),
        kept_accuracy(training),
        *appendix_claims(study),
        *sweep_claims(kernels),
        within_sixteen(study),
    ]
    counts = {verdict: sum(one["verdict"] == verdict for one in listed) for verdict in (HELD, NOT_HELD, UNTESTED)}
    limits = {"close_percent": 100 * CLOSE, "unaffected": UNAFFECTED, "no_impact": NO_IMPACT}
    limits |= {"share_points": SAME_SHARE, "many_percent": 100 * MANY}
    return {"claims": listed, "counts": counts, "limits": limits}
