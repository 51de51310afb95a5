"""Settings that single methods have for themselves; docs/methods.md says where the defaults come from."""

from dataclasses import dataclass

from everlearn.settings import setting


@dataclass(frozen=True)
class PeerSettings:
    """Settings of single methods."""

    unit_features: bool = setting(
        False, "scale features to length one, so that only their direction counts (ncm, slda, ridge, ranpac)"
    )
    shrunken_means: bool = setting(
        False, "draw the means of rare labels towards that of everything; saner probabilities (slda)"
    )
    shrinkage: float | None = setting(
        None,
        "share of the mean variance in every variance (slda); default: as much as few or many examples need",
        least=0,
        most=1,
    )
    ridge_penalty: float = setting(1.0, "λ, what is added to the features' second moment (ridge, ranpac)", above=0)
    random_features: int = setting(10_000, "width of the random layer (ranpac)", above=0)
    der_alpha: float = setting(0.5, "α, weight of the stored logits at a replay (der++)", least=0)
    der_beta: float = setting(0.5, "β, weight of the labels at a replay (der++)", least=0)
    ewc_lambda: float = setting(100.0, "λ, how strongly important weights are held (ewc)", least=0)
    ewc_decay: float = setting(
        0.9, "share of the old importance that stays when a replay measures it anew (ewc)", least=0, most=1
    )
    gem_groups: int = setting(5, "groups of labels that stand for tasks (gem)", above=0)
    gem_margin: float = setting(0.0, "γ, the least weight of a group's gradient where one group is hurt (gem)", least=0)
    gem_gradients: str = setting(
        "head", "what is constrained: head, or lora, which also trains adapters only (gem)", choices=("head", "lora")
    )
    lora_rank: int = setting(8, "rank of the adapters (gem with lora)", above=0)
    mer_beta: float = setting(0.03, "β, how far a batch's steps are followed (mer)", least=0, most=1)
    mer_gamma: float = setting(1.0, "γ, how far all steps of a replay are followed (mer)", least=0, most=1)
    mllre_epsilon: float = setting(
        0.5, "ε, how far the weights follow what was learned since the last replay (mllre)", least=0, most=1
    )
    aligner_steps: int = setting(20, "steps with which each replay refits the aligner (ea-emr)", above=0)
    prototype_examples: int = setting(10, "most examples of a label in its prototype when it is tested (emar)", above=0)
    neighbours: int = setting(
        32, "K, what is fetched to predict an example (mbpa++) or a test set (meta-mbpa)", above=0
    )
    local_adaptation: str = setting(
        "head", "what adapts to the neighbours: head, many at once, or full (mbpa++)", choices=("head", "full")
    )
    local_steps: int = setting(30, "L, steps of local adaptation (mbpa++)", above=0)
    local_lr: float = setting(1e-3, "learning rate of local adaptation (mbpa++)", above=0)
    local_penalty: float = setting(1e-3, "λ, how strongly adapted weights are held (mbpa++)", least=0)
    diverse_share: float = setting(
        0.01, "share of the stream that is stored, what differs first (meta-mbpa)", least=0, most=1
    )
    writing_weight: float = setting(0.25, "λ, weight of writing an example beside answering it (lamol)", least=0)
