"""Which peers are here."""

from dataclasses import dataclass, field

from .peer import Missing, wrong_rows

# A first call of each peer: small, and of a shape that all of them can do.
TRIAL_ROWS, TRIAL_COLS, TRIAL_K = 64, 256, 8


@dataclass
class Found:
    measured: list = field(default_factory=list)  # (peer, version)
    missing: list = field(default_factory=list)  # (peer, why)

    @classmethod
    def among(cls, peers, torch, dtypes, device="cuda"):
        """Looks for the peers. One that is here and fails on a small call counts as missing, with its error."""
        found = cls()
        for peer in peers:
            try:
                version = peer.find(tuple(dtype for dtype in dtypes if dtype in peer.dtypes))
                _try(peer, torch, device)
                found.measured.append((peer, version))
            except Missing as missing:
                found.missing.append((peer, str(missing)))
            except Exception as error:
                first_line = (str(error).splitlines() or [""])[0]
                found.missing.append((peer, f"it does not work here: {type(error).__name__}: {first_line}"))
        return found

    @property
    def peers(self):
        return [peer for peer, _ in self.measured]

    def record(self):
        """For the JSON."""
        return {
            "measured": [
                {"name": peer.name, "version": version, "promises": peer.promises} for peer, version in self.measured
            ],
            "missing": [{"name": peer.name, "why": why, "install": peer.install} for peer, why in self.missing],
        }


def not_looked_for(peers, why):
    return Found(missing=[(peer, why) for peer in peers])


def _try(peer, torch, device):
    """Not all peers can do float32, and a wrong result is no reason to leave one out: it is reported with its times."""
    matrix = torch.randn(TRIAL_ROWS, TRIAL_COLS, device=device)
    if "f32" in peer.dtypes:
        wrong_rows(torch, matrix, *peer.bound(matrix, TRIAL_K)())
