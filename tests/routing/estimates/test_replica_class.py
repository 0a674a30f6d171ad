import msgspec

from protos.types import Load, Role, Shape, Work
from routing.contracts.policy import ReplicaView
from routing.estimates.replica_class import ReplicaClasses


def view(pool: str, tp: int, role: Role = Role.BOTH) -> ReplicaView:
    return ReplicaView(f"{pool}/0", pool, Shape(tp=tp), role, Load(), max_num_tokens=8192)


def test_pools_of_one_shape_and_role_learn_together() -> None:
    classes = ReplicaClasses()
    assert classes.of(view("a", 4)) is classes.of(view("b", 4))
    assert classes.of(view("a", 4)) is not classes.of(view("p", 4, Role.PREFILL))
    assert classes.of(view("a", 4)) is not classes.of(view("c", 2))


def test_pools_of_silent_engines_learn_each_for_itself() -> None:
    classes = ReplicaClasses()
    silent = [msgspec.structs.replace(view(name, 4), max_num_tokens=0) for name in ("a", "b")]
    assert classes.of(silent[0]) is classes.of(silent[0])
    assert classes.of(silent[0]) is not classes.of(silent[1])
    assert classes.of(view("c", 4)) not in (classes.of(silent[0]), classes.of(silent[1]))


def test_what_is_learned_shows_in_the_tables_soon() -> None:
    replicas = ReplicaClasses().of(view("a", 2))
    before = replicas.decode(20)
    for _ in range(20):
        replicas.learn(Work(60_000, sequences=20))
    assert abs(replicas.decode(20) - 0.06) < 0.01
    assert before < 0.03


def test_a_well_known_class_still_follows_a_change() -> None:
    replicas = ReplicaClasses().of(view("a", 2))
    for micros in (10_000, 30_000):
        for _ in range(4000):
            replicas.learn(Work(micros, sequences=16))
    assert abs(replicas.decode(16) - 0.03) < 0.003


def test_a_prompt_token_always_costs_something() -> None:
    replicas = ReplicaClasses().of(view("a", 2))
    for _ in range(200):
        replicas.learn(Work(90_000, prefill_tokens=2048))
        replicas.learn(Work(1_000, prefill_tokens=8192))
    assert replicas.token_seconds > 0


def test_a_replica_of_another_shape_is_of_another_class_once_it_has_left() -> None:
    classes = ReplicaClasses()
    narrow = classes.of(view("p", 1))
    classes.left("p/0")
    wide = classes.of(view("p", 4))
    assert wide is not narrow
    classes.left("p/0")
    assert classes.of(view("p", 1)) is narrow
