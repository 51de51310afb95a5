"""Support tickets to try things out with: a few sentences of each topic, and others, never learned, to test with."""

import random

TOPICS = {
    "delivery": [
        "my parcel never came",
        "the courier left the package in the rain",
        "tracking has not moved since {day}",
        "the box was delivered to my neighbour",
        "my order arrived at the wrong address",
        "nobody rang the bell when you came on {day}",
        "the shipment is stuck in customs",
    ],
    "refund": [
        "i want my money back",
        "please refund what i paid on {day}",
        "i returned the {item} and have not been paid back",
        "you charged me twice for the {item}",
        "cancel it and give me back my payment",
        "the refund is less than i paid",
        "when will the credit reach my card",
    ],
    "login": [
        "i cannot sign in since {day}",
        "the password reset mail does not arrive",
        "my account is locked",
        "it says my user name is unknown",
        "the code for two factor login never comes",
        "i forgot my password again",
        "the app logs me out every minute",
    ],
    "warranty": [
        "the {item} broke after two weeks",
        "does the warranty cover a cracked {item}",
        "my {item} does not turn on any more",
        "i need a repair of the {item} under guarantee",
        "the {item} makes a strange noise, can it be replaced",
        "a part of the {item} fell off",
        "how long is the guarantee on this {item}",
    ],
}
HELD_OUT = {
    "delivery": ["where is my package", "the postman brought it to someone else", "still waiting for the shipment"],
    "refund": ["reimburse me please", "i was billed two times", "send the payment back to my bank account"],
    "login": ["wrong password although it is right", "i am locked out", "signing in fails with an error"],
    "warranty": ["it stopped working after a month", "can you repair it under warranty", "a defective product"],
}
# Later the company sells downloads too, and tickets about delivery read differently.
DRIFTED_DELIVERY = [
    "the download link has expired",
    "my licence key did not arrive by mail",
    "the file is only half downloaded",
    "i bought the e-book and cannot find it",
    "the link in the order mail does not open",
    "the download stops at ninety percent",
]
DRIFTED_HELD_OUT = ["where do i get my licence key", "the file does not download", "no link in my mail"]

_WORDS = {"day": ["monday", "friday", "last week", "yesterday"], "item": ["lamp", "phone", "kettle", "chair", "watch"]}


def tickets(topics: list[str], count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """So many tickets about these topics, in random order."""
    rng = random.Random(seed)
    labels = [rng.choice(topics) for _ in range(count)]
    return [_fill(rng.choice(TOPICS[label]), rng) for label in labels], labels


def drifted(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Tickets about delivery as they read later."""
    rng = random.Random(seed)
    return [_fill(rng.choice(DRIFTED_DELIVERY), rng) for _ in range(count)], ["delivery"] * count


def held_out(topics: list[str]) -> tuple[list[str], list[str]]:
    """Sentences of these topics that are never learned."""
    return [text for topic in topics for text in HELD_OUT[topic]], [topic for topic in topics for _ in HELD_OUT[topic]]


def _fill(sentence: str, rng: random.Random) -> str:
    return sentence.format(**{name: rng.choice(words) for name, words in _WORDS.items()})
