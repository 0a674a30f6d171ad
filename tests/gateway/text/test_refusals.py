import pytest

from gateway.text.refusals import declines


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, but I cannot assist with this request.",
        "Sorry, I am unable to do that.",
        "I can't provide instructions for that.",
        "As an AI language model, I cannot create such content.",
        "I'm not able to discuss this.",
        "I cannot do that.",
        "As an AI, I have no body.",
        "Unfortunately, I will not write that.",
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "Je suis désolé, mais je ne peux pas vous aider.",
        "Lo siento, pero no puedo ayudar con eso.",
        "抱歉，我无法回答这个问题。",
    ],
)
def test_answers_that_decline(text: str) -> None:
    assert declines(text)


@pytest.mark.parametrize(
    "text",
    [
        "Sure! Here is how to write it.",
        "The function cannot return a list. I can help you to change it.",
        "You can't divide by zero.",
        "I'm sorry for your loss. Here is a letter that you could send.",
        "",
        "He said: " + "x" * 300 + " I'm sorry, but I can't help with that.",
    ],
)
def test_answers_that_do_not(text: str) -> None:
    assert not declines(text)
