"""What a password looks like that a text tells after a name, and what has letters and digits and is none."""

import re
from typing import Final

from safety.pii.emails import UNSPACED

VALUE: Final = re.compile(rf"[^\s\"'`,;<>(){{}}，。！？；、…{UNSPACED}\ud800-\udfff]{{6,}}")
QUOTED: Final = re.compile(rf"[^\s\"'`<>，。！？；、…{UNSPACED}\ud800-\udfff]{{6,}}")
#: What has letters and digits, and is no password.
TERM: Final = re.compile(
    r"(?:sha|md|aes|rsa|des|tls|ssl|utf|base|oauth|ipv|http|pbkdf|argon|bcrypt|ed|secp|iso|rfc|cve|nist|fips|ntlmv?|"
    r"wpa|windows|"
    r"win|office|iphone|ios|android|python|java|log|covid|step|schritt|paso|version|ver|v|level|input|item|user|"
    r"field|page|chapter|"
    r"section|figure|fig|table|type|option|part|phase|stage|tier|port|node|server|host|line|row|col|column|day|week|"
    r"year|"
    r"room|number|sql|mysql|word|file|arg|param|slide|article|appendix|question)[-_ ]?v?\d+(?:[.\-_/]\w+)*[a-z]{0,3}$"
    r"|(?-i:\d{1,4}[\-–]?(?:[a-z]+|[A-Z]{1,3}|[A-Z][a-z]+)(?:-[A-Za-z]?[a-z]+)*$)|0x[0-9a-f]+$|v?\d+(?:\.\d+)+\S*$|"
    r"\d+[/:\-.]\d+\S*$|.*\.(?:txt|py|js|md|json|ya?ml|html?|css|"
    r"png|jpe?g|pdf|docx?|xlsx?|csv|zip|conf|cfg|ini|env|sh|db|log|xml|java|go|rs|ts|php|rb|exe|dll|so|gz|com|org|"
    r"net|io)"
    r"(?::\d*)?$|\w+://|www\.|[/~.]|\w+\[|\$|%|\*|-|.*\*\*|(?-i:[a-z_]\w*(?:\.[^\W\d]\w*)+$)|enc\[|arn:|vault:|.*@.*\.",
    re.IGNORECASE,
)
#: Letters and digits as names of things have them, too.
LIKE_A_NAME: Final = re.compile(
    r"[a-z]+\d{1,4}$|[a-z]*(?:_[a-z0-9]+)+$|[a-z]+(?:[A-Z][a-z]+)+\d{0,2}$|[A-Z0-9_.\-]+$|"
    r"[A-Z]{2,}-(?![0-9]{3,}-[a-z]{2,4}$)"
)
#: A passphrase of words, ...
JOINED_WORDS: Final = re.compile(
    r"(?:[a-zß-ÿ]{3,14}(?:-[a-zß-ÿ]{3,14}){2,7}|[A-ZÀ-Þ][a-zß-ÿ]{2,13}(?:-[A-ZÀ-Þ][a-zß-ÿ]{2,13}){2,7})$"
)
#: ... rather than what is said of one.
NO_PASSPHRASE: Final = re.compile(
    r"(?i:(?<![a-z])(?:the|and|for|not|all|out|but|one|two|per|non|und|der|die|das|les|des|del|los|las|que|con|sin|"
    r"por|est|end|use|"
    r"time|times|case|auth|level|only|pass|code|key|factor|based|sensitive|multi|password|token|user|protected|"
    r"encrypted|free|"
    r"proof|wide|term|sign|step|long|live|lived|write|read|once|self|well|cross|site|server|client|side|lower|upper|"
    r"real|"
    r"world|open|source|high|low|first|second|third|party|your|own|risk|same|day|hour|minute|word|digit|number|"
    r"letter)(?![a-z])"
    r"|passwor)"
)
#: Letters and figures with a sign that names have not, or figures amid letters, as in `n0tMyP4ss`.
SIGNED: Final = re.compile(r"(?=.{7}).*(?:[!#$%^&*?+~]|[^\W_]_[^\W_])")
AMID: Final = re.compile(
    r"(?=.{8})(?:[A-Za-z]+[0-9]+){2,}[A-Za-z]|(?=.{10})[A-Za-z]{3,}[0-9]{3,}[A-Za-z]{2,}$|"
    r"[A-Za-z]{1,10}[013457][a-z]{3,}(?:[\-._][A-Za-z0-9]{2,})+$"
)
