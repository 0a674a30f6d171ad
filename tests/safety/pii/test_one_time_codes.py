"""Codes that are typed once, which their names tell, and what else is a few figures beside such words."""

import re

import pytest

from safety.pii.filter import PiiFilter
from safety.pii.kinds import SECRETS
from safety.pii.one_time_codes import _NAMES, _UNSPACED
from safety.plain_text import plain_bytes
from tests.safety.pii.marked import assert_found

FILTER = PiiFilter(SECRETS)

FOUND = [
    "Your verification code is «482913»",
    "Your verification code for the staging portal is «482913». It lapses soon.",
    "Your verification code:\n\n«482913»\n\nDo not share it.",
    "Hi, your login code: «714-902»",
    "The 2FA code was «550 318», try again",
    "2FA: «550-318»",
    "one-time code is «5503» — no wait",
    "OTP is «482913»",
    'the otp he got was "«8817»"',
    '{"otp": "«881704»"}',
    "otp_code=«881704»",
    "your one-time PIN is «482913»",
    "**Security code:** «771902»",
    "My WhatsApp code is «482-913» what now",
    "Your sign-in code is «90317»",
    "Your Google verification code is «G-482913»",
    "Enter confirmation code «771902» to finish your registration",
    "TAN «482913»",
    "Ihre SMS-TAN lautet «482 913»",
    "mTAN: «771902»",
    "BLIK «771 902»",
    "Mój kod BLIK to «771902»",
    "Ihr Bestätigungscode lautet «4829»",
    "Dein Einmalcode: «771902»",
    "Votre code de vérification est le «482913».",
    "code à usage unique : «771 902»",
    "Tu código de verificación es «482913»",
    "código de seguridad: «7719»",
    "O seu código de verificação é «482913»",
    "Il codice OTP è «771902»",
    "codice di verifica: «482-913»",
    "Je verificatiecode is «482913»",
    "Din engångskod är «771902»",
    "Engangskoden er «771902»",
    "Vahvistuskoodi on «771902»",
    "Kod weryfikacyjny to «771902»",
    "Ověřovací kód je «771902»",
    "Az ellenőrző kód «771902»",
    "Codul de verificare este «771902»",
    "Doğrulama kodunuz: «771902»",
    "Kode OTP Anda adalah «771902»",
    "Mã OTP của bạn là «771902»",
    "Ваш код подтверждения: «771902»",
    "Код из СМС — «7719»",
    "Код підтвердження «771902»",
    "Κωδικός επαλήθευσης: «771902»",
    "رمز التحقق هو «771902»",
    "קוד אימות: «771902»",
    "הקוד החד-פעמי הוא «771902»",
    "आपका ओटीपी «771902» है",
    "รหัส OTP คือ «771902»",
    "認証コード：«771902»",
    "確認コードは«7719»です",
    "验证码是«482913»",
    "您的验证码«482913»，请勿泄露",
    "인증번호는 «771902»입니다",
]

NOTHING = """
verification code must be 100000 to 999999
The verification code is 6 digits
the OTP length is 1024 bits
OTP codes: 4821 sent today
Erlang/OTP 2024 release
OTP Bank: 11773016 01234567
OTP Bank share price is 18250
security code 2019 update
The Labor Security Code is 2013
Toyota (TSE listed, security code: 7203)
confirmation code for your hotel booking is 482913
Booking made, confirmation code: 48291377
Your order has shipped. Confirmation code: 482913
Flight to Oslo, confirmation code 482913
error code 404, verification code missing
message authentication code is 2048 bits
example verification code: 771902
The verification code expired after 1800 seconds
the verification code 1204 lines long
the login code is 1204 lines
Enter the verification code sent to 48291
code de vérification envoyé en 2024
code de sécurité incendie 2019
code de validation 2024
a tan 482913 leather sofa
tan = 482913
TAN 4500
kod błędu 482913, kod pocztowy 482913
promo code 482913, discount code 771902
the reset codes 2019
SMS codes cost 1200 euros
{"otp": "123456"}
Your OTP is 000000
two-factor codes since 2019
verification code: 12.50
OTP: 12:30
验证码有482913位
验证码错误 4012
认证编号 482913
Код ошибки 771902, код подтверждения не пришёл
Заказ оформлен, код подтверждения 771902
""".strip().splitlines()


@pytest.mark.parametrize("marked", FOUND)
def test_it_is_found(marked: str) -> None:
    assert_found(FILTER, marked)


@pytest.mark.parametrize("name", [*_NAMES, *_UNSPACED])
def test_every_name_tells_one(name: str) -> None:
    """A text with it passes all the tests by which most texts are told to have nothing."""
    assert_found(FILTER, f"{re.sub('tan$', 'TAN', name)}: «771902»")


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_is_found(text: str) -> None:
    assert FILTER.scan(text, plain_bytes(text)) == []
