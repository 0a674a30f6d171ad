"""What stands between the name of a secret and the secret, in small letters, and what stands where one would."""

import re
from typing import Final

#: To the left of a place, so much is looked at.
LEFT: Final = 64
#: A word that tells more of what the secret is for.
WORD: Final = r"(?:[,:]? [0-9]?[^\W\d_][\w'’/\-]{0,30}| \([^()\n]{1,30}\))"
QUOTE: Final = r"(?:\\?[\"'`“”„‘‚«»›*]{1,2} ?)?"
#: In a rough test, where a word begins; in JSON's strings white space is a backslash and a letter.
WORD_BEGINS: Final = r"(?:^|[^A-Za-z0-9]|\\[nrt])"
#: What says that it comes now.
IS: Final = (
    r"(?:is|was|remains|stays|bleibt|reste|resta|sigue siendo|blijft|förblir|forbliver|pozostaje|zůstává|"
    r"остаётся|остается|sekarang|it['’]?s|c['’]est|ni|คือ|е|ist|war|lautet|es|era|é|est|était|è|är|er|jest|este|je|zní|glasi|luidt|bylo|było|była|var|oli|"
    r"(?<=salasana )on|(?<=hasło )to|это|je to|pedig|यह|है|هي|هو|ήταν|είναι|היא|הוא|là|adalah|ialah|[—–\-]|"
    r"(?:changed|set|reset|updated|rotated|switched|cambi[aoó]d[oa]|cambiat[oa]|alterad[oa]|zmienion[eoay]|изменен\w?) "
    r"(?:to|a|in|para|por|na|на)|"
    r"(?:gave|sent|told|texted|e-?mailed|gegeben|geschickt|donné|envoyé)"
    r"(?: (?:me|us|him|her|them|hast|habt|haben|hat))?,?|"
    r"(?:(?:geändert|gewijzigd|changée?|endret|ændret|ändrat|vaihdettu)(?: (?:auf|zu|in|naar|en|til|till))?|"
    r"(?:(?:zurück)?gesetzt|ge(?:re)?set|gezet|ingesteld) (?:auf|op))|"
    r"(?<!able )to|para)"
    r"(?: (?:now|still|jetzt|nun|adesso|ora|ahora|maintenant|agora|nu|teraz|теперь|сейчас|acum|şimdi|"
    r"ancora|noch|encore|todavía|aún|ainda|nog|fortfarande|stadig|fortsatt|wciąż|nadal|hâlâ|hala))?"
)
#: What codes are of that are no secrets, said right before the word.
OTHER_CODES: Final = (
    r"error|fault|exit|status|return|response|zip|post|postal|area|country|dial(?:l?ing)?|booking|reservation|order|"
    r"item|part|product|article|model|event|trouble|diagnostic|source|qr|bar|colou?r|dress|building|currency|sort|tax|"
    r"sample|example|fehler|artikel"
)
#: What says that it is another one now, after whatever is said of the old one.
NEW_ONE: Final = (
    r"[.;!,]? (?:(?:and|but|so|und|et|y|e) )?(?:(?:the|der|die|das|le|la|el|il|o|a|de|het|den|det) )?"
    r"(?:new|correct|right|current|working|fresh|neue?[rs]?|richtige[rs]?|aktuelle[rs]?|nouveau|nouvelle|bonne?|"
    r"actuel(?:le)?|nuev[oa]|nuov[oa]|giust[oa]|nov[oa]|cert[oa]|nieuwe?|juiste|nya|nye|ny|uusi|now[eya]|nov[ýéá]|új|"
    r"noua?|yeni(?:si)?|нов\w{2}|правильн\w{2}|актуальн\w{2})(?: (?:one|ones|password|key|token|secret|value))?"
)
#: What is said by those who are not sure, ...
DOUBT: Final = (
    r"(?:probably|maybe|perhaps|i (?:think|believe|guess)|might be|wohl|vermutlich|(?:ich )?glaub['’]?e?(?: ich)?|"
    r"vielleicht|peut-être|je (?:crois|pense)|creo que|quizás?|tal vez|forse|credo|mi sa|acho que|talvez|misschien|"
    r"denk ik|(?:ik )?denk|kanske|kanskje|måske|(?:jag )?tror(?: jeg| jag)?|ehkä|chyba|może|asi|snad|myslím|talán|"
    r"azt hiszem|cred că|parcă|galiba|sanırım|kayaknya|mungkin|sepertinya|наверное|кажется|вроде|мабуть|здається)"
)
#: ... and of what ought to be one.
SHOULD_BE: Final = (
    r"(?:(?:should|ought to|must|has to) (?:still |now )?be|(?:was|is) supposed to be|sollte|müsste|devrait être|"
    r"debería ser|dovrebbe essere|dev(?:e|eria) ser|zou|moet|powinno być|mělo být|должен быть|має бути)"
)
#: What stands before a value in a program: as the next argument, of a constant with a type, in a call.
ARGUMENT: Final = (
    r"(?:[\"'] ?, ?|: ?[&'][a-z& ']{0,12}str = |: [a-z]{1,12}\?? = |\( ?|"
    r" {0,3}:?= {0,3}(?:\[\]byte|[a-z_.:]{1,20})\( ?)b?[\"']"
)
#: What is said of secrets, and not what they are.
ABOUT: Final = re.compile(
    r"polic|polít|rule|primari|primär|forán|length|\bage\b|manager|hash|hint|fingerprint|field|feld|strength|requirement|minimum|must|should|contain|character|algorithm|"
    r"encrypt|encod|expire|attempt|invalid|incorrect|error|fail|\b(?:user|username|account|konto|login|e-?mail|id|"
    r"prefix|count|type|name|file|digest|sha|public|ssh|for|in|of|no|not|than|with|using|at|version|column|table)$"
)
#: What stands where a secret would: nothing, a reference, a type, the beginning of a sentence.
QUIET: Final = re.compile(
    r"[*•xX#._\-…]+$|[*•…]{3}|(?:tu|su|mi|ihr|dein|votre|mon|ton|seu|sua|jouw|twoje)[_\-][^\s0-9]*$|ENC\[|vault:|arn:|op://|ref\+|projects/|/(?:run|etc|var|proc|vault)/|\$[{(A-Za-z_]|%[A-Za-z({]|\{|\[|<|https?://|\.\.\.|@|n/a$|os\.|process\.|env[.\[]|config[.\[]|settings[.\[]|self\.|"
    r"[a-z_][\w.]*\[[\w:'\"\-]*\]?$|[0-9]+(?:\.[0-9]+){3,}$|this\.|args\.|form\.|req\.|request\.|user\.|params\.|ctx\.|data\.|"
    r"convertto-|new-object|get-|![a-z]+$|/(?:home|root|usr|opt|tmp|mnt|srv)/|sys\.argv|required\||(?:the|some|any)[_.\-\s]|"
    r"(?:your|my|enter|insert|example|change|none|null|nil|true|false|undefined|str|text|required|optional|redacted|"
    r"hidden|secret|password|token|pass|invalid|missing|must|should|expired|incorrect|wrong|reset|placeholder|todo|bearer|basic|"
    r"input|field|get|hash|len|int|varchar|bool|object|type|value|key|new|old|current|default|empty|unset|unknown|"
    r"number|any$)"
    r"[A-Za-z_.\-\[\]!?]*$|(?:your|my|test|example)?[_\-]?(?:password|passwd|token|secret)\d?$",
    re.IGNORECASE,
)
