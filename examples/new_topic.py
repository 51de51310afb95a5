"""A topic that appears later: the classifier takes it up and keeps what it knew."""

from everlearn import LifelongClassifier
from tickets import held_out, tickets


def main() -> None:
    """Two topics at first, a third one later, and nothing is trained again from the start."""
    clf = LifelongClassifier()
    clf.partial_fit(*tickets(["delivery", "refund"], 100))
    clf.hold_out(*held_out(["delivery", "refund"]))
    print("knows", clf.classes_.tolist(), f"- right on held-out tickets: {clf.forgetting().accuracy:.0%}")

    clf.partial_fit(*tickets(["delivery", "refund", "login"], 100, seed=1))  # a new label needs no announcement
    clf.hold_out(*held_out(["login"]))
    after = clf.forgetting()
    print("knows", clf.classes_.tolist(), f"- right on held-out tickets: {after.accuracy:.0%}")
    for label, share in after.now.items():
        print(f"  {label}: {share:.0%} right now, {after.best[label]:.0%} at best")
    print("'my account is locked' is about", clf.predict(["my account is locked"])[0])


if __name__ == "__main__":
    main()
