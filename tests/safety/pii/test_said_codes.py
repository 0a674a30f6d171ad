"""Codes that a sentence tells, before or after it."""

import pytest

from safety.pii.filter import PiiFilter
from tests.safety.pii.marked import assert_found

FILTER = PiiFilter()

TOLD = [
    "«G-482913» is your Google verification code.",
    # What follows tells it, ...
    "«482913» is your Amazon verification code.",
    "«829104» ist Ihr Code für die Anmeldung",
    "«482913» est votre code de vérification",
    "«482913» es tu código de verificación de Uber",
    "Use «482913» to sign in to your account.",
    "Enter «482913» to verify your email.",
    "Utilisez le code «482913» pour vous connecter.",
    "Use «Q7H2-9LKD» to finish signing in",
    # ... whose it is, ...
    "Your Uber code: «4821». Never share this code.",
    "Your code is «482913». It is valid for 10 minutes.",
    "Ihr Code lautet «482913».",
    "Twój kod to «482913»",
    "El código es «482913»",
    # ... who sent it, ...
    "The code I got is «482913»",
    "they texted me the code «482913» but it says expired",
    "my bank texted me a code, «604 118», and right after that someone rang",
    "El código que me llegó es «482913» y dice que ya caducó",
    "le code que j'ai reçu est «482913»",
    "der Code, den ich bekommen habe, ist «482913»",
    "codul dvs. este «883 041», nu-l comunicați nimănui",
    "sykehuset ga meg kode «5538» til pasienthotellet",
    "enter the code «482913» when prompted",
    # ... what it opens, ...
    "The keybox is next to the tank. The code is «1586».",
    "The cabinet code changed on Friday, it is now «7193», please",
    "changed the e-bike lock, code is now «0417» (mum's birthday)",
    "The safe opens with «31-07-64»",
    "La boîte à clés s'ouvre avec «6-1-9-4», remettez les molettes à zéro",
    "Der Schlüsseltresor geht mit «2094» nicht auf",
    "la alarma de la tienda se quita con «73910» y la persiana con la llave",
    "you can open the gate with «4471#»",
    "her key safe «C1957X», and the chemist",
    "Домофон: квартира 41, код «41К2207», второй подъезд",
    "tell her the lockbox on the side gate is «4471» please",
    "Alarma: código «9164»",
    "koden til nøgleboksen er «0583», ring på",
    # ... and what kind of code it is.
    "i forgot how to change a pin, mine is «7093» and i want another",
    "The verification code you asked for is «550218». It expires",
    "kode OTP-nya «285906», tapi aplikasinya gagal",
    "入館コード：«71942»",
    "hey gpt my router pin on the sticker is «48120375», is WPS dangerous?",
    "Your new telephone banking passcode is «81 44 20». Keep it",
    "My CVV is «318»",
    "CVC: «318»",
    "card on file, cvv «318», exp 04/27",
    "use your one time activation key «7QK-M4T-88WZ» before 31 March",
    "activation code: «7QK-M4T-88WZ»",
]


@pytest.mark.parametrize("marked", TOLD)
def test_it_is_found(marked: str) -> None:
    assert_found(FILTER, marked, "password")


def test_the_key_of_a_network_on_the_line_below_its_name_is_found() -> None:
    assert_found(FILTER, "SSID: IronWorks-Guest\nkey: «deadlift4breakfast»\nCould you make it a sign?", "password")


def test_a_card_and_its_code_are_two() -> None:
    text = "pay 4242 4242 4242 4242, exp 04/27, cvc 123"
    assert [text[match.start : match.end] for match in FILTER.scan(text)] == ["4242 4242 4242 4242", "123"]
