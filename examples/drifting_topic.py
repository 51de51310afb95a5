"""A topic that changes: tickets about delivery come to be about downloads, and the old kind must not be lost."""

from everlearn import LifelongClassifier
from tickets import DRIFTED_HELD_OUT, HELD_OUT, drifted, held_out, tickets


def main() -> None:
    """Parcels first; then downloads come in among the other topics."""
    clf = LifelongClassifier()
    topics = ["delivery", "refund", "login"]
    clf.partial_fit(*tickets(topics, 200))
    report(clf, "before the drift")
    for seed in range(8):
        clf.partial_fit(*tickets(["refund", "login"], 10, seed=seed))
        clf.partial_fit(*drifted(10, seed=seed))
    report(clf, "after the drift")


def report(clf: LifelongClassifier, when: str) -> None:
    """How well old and new kinds of tickets are known."""
    old = clf.score(HELD_OUT["delivery"], ["delivery"] * len(HELD_OUT["delivery"]))
    new = clf.score(DRIFTED_HELD_OUT, ["delivery"] * len(DRIFTED_HELD_OUT))
    others = clf.score(*held_out(["refund", "login"]))
    print(f"{when}: parcels {old:.0%}, downloads {new:.0%}, other topics {others:.0%} right")


if __name__ == "__main__":
    main()
