"""The entry point of this package: composes the answers to one guided request, or says why there are none."""

from collections.abc import Callable, Sequence

from protos.errors import GUIDE_PARAM
from protos.types import Failure, Submit
from replicas.engines.answer_lengths import Corpus
from replicas.engines.guided.composition import Composed, compose, keeps
from replicas.engines.guided.errors import GuideError
from replicas.engines.guided.grammars import plans_of
from replicas.engines.guided.palette import palette_of
from replicas.engines.vocabulary import Vocabulary


def guided_answers(
    vocabulary: Vocabulary,
    corpus: Corpus,
    request: Submit,
    keys: list[bytes],
    most: int,
    scripted: Sequence[int] | None,
    wanted: Callable[[], bool],
) -> list[Composed] | Failure:
    """Compose an answer per key, of up to `most` tokens including those that the request has generated already.

    A `scripted` answer is used for each key if it matches the guide.
    Run it in a thread: it may take a while, and stops soon after it is no longer `wanted`.
    """
    assert request.guide is not None, "nothing guides the request"
    generated = request.generated
    said = request.prompt_ids[len(request.prompt_ids) - generated :]
    least = generated + request.sampling.min_tokens
    try:
        palette = palette_of(vocabulary, corpus)
        tokenizer = palette.tokenizer
        if scripted is not None and any(
            keeps(plan, palette, scripted) for plan in plans_of(request.guide, tokenizer, compact=False)
        ):
            return [Composed(list(scripted[:most]), whole=len(scripted) <= most)] * len(keys)
        plans = plans_of(request.guide, tokenizer)
        answers = []
        for key in keys:
            answer = compose(plans, palette, key, most=most, least=least, wanted=wanted)
            if answer.tokens[:generated] != said:
                # An earlier attempt had another seed: continue its tokens.
                answer = compose(plans, palette, key, most=most, least=least, said=said, wanted=wanted)
            answers.append(answer)
    except GuideError:
        # The reason would quote the guide.
        return Failure("unsupported_parameter", "no answer can keep to the guide", GUIDE_PARAM)
    except BaseException as error:
        # The library's panics are not Exceptions, and the waiting request must be answered.
        return Failure("engine_error", f"guide: {type(error).__name__}")
    else:
        return answers
