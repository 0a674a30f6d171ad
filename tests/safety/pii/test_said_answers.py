"""Passwords that stand somewhere after a word for one, and what else stands there."""

import pytest

from safety.pii.filter import PiiFilter
from safety.pii.kinds import SECRETS
from tests.safety.pii.marked import assert_found

FILTER = PiiFilter(SECRETS)

FOUND = [
    "anyone got the grafana pw for the new cluster\n[10:43] ines: admin / «Puffin.Rotor.62»\n[10:43] ines: url is",
    "hast du das neue WLAN-Passwort fürs Büro?\nTobi: ja, «Brezel-Koffer-Zug5»\nSvenja: danke!",
    "Har du lösenordet till testdatabasen?\nJapp: «Lingon-Kvarn#12» och hosten är",
    "— скинь пароль від тестової CRM\n— «Vyshnia_Doshch.27», логін manager",
    "what's the wifi password?\nIt's «Maple-Leaf-42»",
    "Bob: wifi password?\nAnn: «maple!leaf42»",
    "A: whats the password for the nas\nB: try «OtterBay_1987»",
    "¿Cuál es la contraseña del wifi?\nEs «Girasol*2031»",
    "t'as le mot de passe du wifi ?\nMarc: oui c'est «Tulipe!Noire9»",
    "qual è la password del gestionale?\nanna: «Lampone-Verde7!»",
    "jakie jest hasło do wifi?\nKasia: «Zielony-Kot_77»",
    "какой пароль от вайфая?\nОля: «Tyulen_2020!»",
    "wifi şifresi ne?\nAli: «Mavi_Deniz34!»",
    "the wifi password pls\\nann: it's «Maple-Leaf-42»",
    "Passwort? «Amsel!Birke7»",
    "hab das wlan-passwort geändert weil der nachbar mitgesurft hat: «Dachs!unter_Birke12» gruß tom",
    "пароль на папірці, але я його сфоткав: «Калина1949_борщ»",
    "the password for this one got changed by somebody yesterday so use «Kestrel%Dune5» from now on",
    'spawn ssh bob@h\nexpect "password:"\nsend "«Zayit!Gesher38»"',
]

NOTHING = [
    "Password reset\nOpen Outlook-2016 and click",
    "Forgot your password? Contact support at Help-Desk24 now",
    "password required: yes\nServer: Web-Prod-02",
    "Password last set: never\nHostname: Win-Server-2019",
    "did you change the password?\nBob: yes, in Windows-Server-2019 it was easy",
    "Did you reset the password?\nAnn: see ticket INC-0012345",
    "Passwort vergessen? Kein Problem: FRITZ!Box7590 zurücksetzen",
    "Do not use passwords like Summer!2024x or Winter!2023x, they are weak",
    "A strong password such as Tr0ub4dor!Zebra must contain a digit",
    "wifi password? ask at Room-214 please",
    "Password policy v2.1\nOwner: IT-Security2",
    "how do I set a password in postgres?\nUse pg_hba.conf and scram-sha-256 as method",
    "Was ist das Passwort-Feld?\nEin input in HTML5-Forms",
    "Senha inválida.\nCódigo: ERR-4012-B",
    "if (password!=user2.Pass && x^2y>0) return Foo!2;",
    "Enter password:\nLogin successful for User-Admin_01",
]


@pytest.mark.parametrize("marked", FOUND)
def test_it_is_found(marked: str) -> None:
    assert_found(FILTER, marked, "password")


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_is_found(text: str) -> None:
    assert FILTER.scan(text) == []
