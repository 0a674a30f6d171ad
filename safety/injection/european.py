"""Cues in German, Dutch, French, Spanish, Italian, Portuguese, Polish, Russian and Turkish."""

from typing import Final

from safety.injection.cues import Table
from safety.injection.english import OVERRIDE, REVEAL, TASK
from safety.injection.english_personas import PERSONA

GERMAN: Final = Table(
    "german",
    TIME="vorherig\\w*|vorig\\w*|fr[uü]her\\w*|bisherig\\w*|obig\\w*|vorangegangen\\w*|vorhergehend\\w*|oben\\w*|"
    "vorstehend\\w*|urspr[uü]nglich\\w*|alten?|zuvor\\w*|davor|bestehend\\w*|"
    "eerder\\w*|vorige|voorgaand\\w*|bovenstaand\\w*|oorspronkelijk\\w*|voorafgaand\\w*|vorige|hierboven|"
    "aufgef[uü]hrten|genannten|erhaltenen|gegebenen|initialen",
    OBJECT="anweisung\\w*|anleitung\\w*|instruktion\\w*|regeln?|vorgaben?|befehle?n?|richtlinien?|prompts?|"
    "auftr[aä]ge?n?|aufgaben?\\w*|anordnung\\w*|einschr[aä]nkung\\w*|programmierung|systemprompts?|"
    "beschr[aä]nkung\\w*|gesagte|informationen|aussagen|kontext|text\\w*|ausf[uü]hrung\\w*|nachricht\\w*|"
    "vorschriften|weisungen|sicherheits\\w+|filter|"
    "instructies?|aanwijzing\\w*|opdracht\\w*|regels?|richtlijn\\w*|bevel\\w*|beperking\\w*|commando.?s|"
    "systeemprompt|anweisungs\\w+",
)
add = GERMAN.add
_G = (
    "ignorier|vergiss|vergesse|vergesst|vergessen|missacht|mißacht|beacht|befolg|übergeh|uebergeh|überschreib|"
    "umgeh|verwirf|verwerf|lösch|loesch|setz|negeer|vergeet|vergeten|folge|halte|befolg|hör auf|hoer auf|streich|"
    "ignoreer|omzeil|"
    "volg|verlass|überspring|außer acht|lass"
)
add(
    OVERRIDE,
    0.75,
    _G,
    r"(?:ignorier\w*|verg[ie]ss\w*|mi(?:ss|ß)acht\w*|ubergeh\w*|uebergeh\w*|uberschreib\w*|umgeh\w*|verw[ie]rf\w*|"
    r"lo?e?sch\w*|negeer|vergee?t\w*|streich\w*|ignoreer|omzeil|uberspring\w*) ~3{TIME} ~2{OBJECT}",
)
add(
    OVERRIDE,
    0.6,
    _G,
    r"(?:ignorier\w*|verg[ie]ss\w*|missacht\w*|ubergeh\w*|uberschreib\w*|umgeh\w*|verw[ie]rf\w*|lo?e?sch\w*|negeer|"
    r"vergee?t\w*|ignoreer|omzeil) ~2(?:alle[rsnm]?|jegliche|samtliche[nr]?|deine[nr]?|alles|saemtliche|al|jouw|je|"
    r"de|die|ihre) "
    r"~1(?:anweisung\w*|instruktion\w*|regeln|vorgaben|befehle|richtlinien|prompts?|anordnung\w*|einschrankung\w*|"
    r"programmierung|systemprompt|instructies|regels|richtlijnen|aanwijzingen|opdrachten|beperkingen|"
    r"sicherheits\w+)",
)
add(
    OVERRIDE,
    0.6,
    "ignorier|vergiss|vergesse|vergesst|vergessen|missacht|negeer|vergeet|lösch",
    r"(?:ignorier\w*|vergiss\w*|vergess\w*|missacht\w*|negeer|vergeet|losch\w*) (?:bitte |nun |jetzt |einfach |nu |"
    r"maar )*(?:alles|das|was|alle dinge|al|wat)[\W_]{1,4}~2(?:zuvor|davor|vorher\w*|bisher\w*|oben\w*|gesagt\w*|"
    r"obige|was|gelernt|"
    r"und|weisst|weiß|gesagt|hiervoor|wat|hierboven|eerder|du|en|je|bis jetzt|bislang)\b",
)
add(
    OVERRIDE,
    0.5,
    "ignorier|vergiss|vergesse|vergesst|negeer|vergeet",
    r"(?:ignorier\w*|vergiss|vergess\w*|negeer|vergeet) (?:bitte |nun |jetzt |einfach )*(?:alles|alle|"
    r"das obige)[\W_]{0,3}(?:$|[.!;:]|(?:und|en) )",
)
add(
    OVERRIDE,
    0.6,
    "beacht|befolg|folge|halte|volg|hör auf|hoer auf|houd",
    r"(?:beacht\w*|befolg\w*|folge|halte?|volg|houd|ho?e?r auf) ~5(?:{OBJECT}) ~2(?:nicht|niet|zu befolgen|mehr|"
    r"keine|nicht mehr|te volgen)\b",
)
add(OVERRIDE, 0.6, "außer acht|ausser acht", r"ausser acht", r"lass\w* ~3(?:{TIME})? ?~2{OBJECT}[\W_]{1,3}~1$")
add(
    TASK,
    0.35,
    "neue aufgabe|neue anweisung|nächste aufgabe|konzentriere dich|konzentrieren sie sich|konzentrier dich|"
    "fokussiere dich|neuen aufgabe|nieuwe opdracht|nieuwe instructies|nieuwe taak|neue instruktion",
    r"[^\W_]{4,14} [^\W_]{3,14}",
)
add(
    TASK,
    0.5,
    "aufgabe|anweisung|auftrag|befehl|arbeit",
    r"(?:aufgaben?|anweisung\w*|auftrag|befehle?|arbeit)\b",
    r"\b(?:stopp\w*|beend\w*|unterbrich|brich|h(?:ö|o)r\w*|verlasse)\b ~3(?:{TIME}|aktuelle\w*) $|\b(?:nur|"
    r"ausschlie(?:ss|ß)lich)\b ~3(?:n(?:ä|a)chste\w*|folgende\w*|neue\w*)[\W_]$",
)
add(
    REVEAL,
    0.55,
    "prompt|systemprompt|anweisung|instruktion|systemnachricht|systeemprompt|instructie|richtlinien|system-prompt|"
    "vorgaben|prompttext",
    r"(?:system[\W_]?prompts?|prompts?|prompttexte?|anweisung\w*|instruktion\w*|systemnachricht|systeemprompt|"
    r"instructies|richtlinien|vorgaben)\b",
    r"\b(?:zeig\w*|nenn\w*|gib|geben|verrat\w*|wiederhol\w*|ausgeben|druck\w*|sag\w*|schreib\w*|was (?:ist|war|"
    r"sind|waren|steht)|wie (?:laut\w*|ist|war|sind|waren)|welche\w*|offenbar\w*|wat (?:is|zijn|was)|toon|geef|"
    r"vertel|herhaal|laat|print|liste\w*|ubersetz\w*|zusammenfass\w*|fass\w*|erzahl\w*|teil\w*|beschreib\w*|"
    r"spell|buchstabier\w*|zitier\w*|poste\w*)\b ~4(?:dein\w*|eure\w*|ihre?\w*|jouw|je|uw|dir|den|das|die|alle|de|"
    r"het) (?:(?:urspr\w*|komplett\w*|vollst\w*|geheim\w*|exakt\w*|genau\w*|erst\w*|interne\w*|initial\w*|"
    r"verborgen\w*|versteckt\w*|ganze\w*|oorspronkelijke|volledige|geheime|verborgen|anf\w*|bisherig\w*|obig\w*|"
    r"system)[\W_]{1,3}){0,3}$",
)
add(
    REVEAL,
    0.5,
    "passwort|kennwort|geheimwort|wachtwoord",
    r"(?:passwort|kennwort|geheimwort|wachtwoord)[\W_]{0,3}(?:$|[.!?,]|und|das du|rückwarts|ruckwarts)",
    r"\b(?:sag\w*|nenn\w*|verrat\w*|gib|zeig\w*|was ist|wie lautet|wie ist|wat is|geef|vertel|toon) (?:mir |uns |"
    r"mij |me |jetzt |bitte )*(?:das|dein|het) (?:geheime )?$",
)
add(
    PERSONA,
    0.2,
    "du bist jetzt|du bist nun|ab jetzt|ab sofort|von nun an|von jetzt an|tu so|stell dir vor|spiele die rolle|"
    "verhalte dich|agiere als|je bent nu|vanaf nu|doe alsof|nun bist du|jetzt bist du|gib vor|tue so",
)
add(
    PERSONA,
    0.35,
    "einschränkung|beschränkung|regeln|filter|zensur|moral|ethik|ethisch|moralisch|unzensiert|uneingeschränkt|"
    "beperking|regels|ongecensureerd|tabus|grenzen|richtlinien|uneingeschraenkt|einschraenkung|beschraenkung|"
    "ohne einschr",
    r"[^\W_]{4,18}",
    r"\b(?:du|dich|ki|bot|modell|je|jij|ai|rolle|als|sei|antworte\w*|assistent\w*|chatbot)\b.{0,44}\b(?:ohne|"
    r"keine?\w*|frei von|zonder|geen|un\w+|nicht an) ~2$|\b(?:du bist|je bent|sei|als|ki|eine?)\b.{0,24}$",
)

ROMANCE: Final = Table(
    "romance",
    VERB="ignor\\w*|oubli\\w*|olvid\\w*|dimentic\\w*|esque[cç]\\w*|desconsider\\w*|neglig\\w*|contourn\\w*|"
    "anul\\w*|annul\\w*|scart\\w*|descart\\w*|bypass\\w*|elud\\w*|burl\\w*|trascur\\w*|omet\\w*|omit\\w*|"
    "tralasci\\w*|scord\\w*|efface\\w*|borr\\w*|"
    "apag\\w*|cancell\\w*|contorn\\w*|outrepass\\w*|supprim\\w*|elimin\\w*|(?:fais|faites|haz|haga|"
    "caso) (?:abstraction|caso omiso) (?:de|des)|caso omiso (?:de|a)|abstraction de|(?:tiens?|tenez|"
    "tenir) ~2compte|desobede[cz]\\w*|aggir\\w*|supera\\w*|"
    "(?:suivre|suis|suivez|sigas|seguir|siga|sigue|seguire|obedezcas|respect\\w*|obeir)|lev\\w* em conta|"
    "desprez\\w*|rejet\\w*",
    TIME="precedent\\w*|anterior\\w*|previ[aoe]s?|previament\\w*|ci[\\W_]dessus|ci[\\W_]avant|initial\\w*|"
    "inicia\\w*|inizial\\w*|origina\\w*|originel\\w*|passee?s?|pasad[ao]s|passad[ao]s|dadas?|acima|arriba|"
    "sopra|superior\\w*|antes|avant|prima|plus haut|"
    "recu\\w*|recib\\w*|ricevut\\w*|recebid\\w*|anteriormente|donne\\w*|di cui sopra|del sistema|do sistema|"
    "du systeme|systeme|precedemment|hasta ahora|finora|ate agora|jusqu.ici",
    OBJECT="instru[cz]\\w+|istruzion\\w*|instruc\\w*|consignes?|regles?|reglas?|regras?|regole|directives?|"
    "directric\\w*|diretriz\\w*|direttiv\\w*|ordres?|ordenes|ordens|ordini|ordine|orden|comand\\w*|"
    "indicacion\\w*|indicazion\\w*|orientac\\w*|prompts?|restri[cz]\\w+|"
    "programm?ation|programac\\w*|programmazione|contraintes?|limitac\\w*|limit\\w*|"
    "taches?|tareas?|tarefas?|compit\\w*|contexte?o?|contesto|conversation|normas|"
    "politicas?|linee guida|directive|indications|filtr\\w*|vincoli",
    SHOW="montre\\w*|affiche\\w*|revel\\w*|rivela\\w*|mostr\\w*|muestr\\w*|ensen\\w*|dis|dites|dime|dimmi|diga\\w*|"
    "dici|donne\\w*|dame|dammi|repet\\w*|repit\\w*|ripet\\w*|imprim\\w*|stamp\\w*|ecri[st]\\w*|escrib\\w*|"
    "escrev\\w*|scriv\\w*|cual(?:es)? (?:es|son|era|fue|eran)|"
    "quel\\w* (?:est|sont|etait|etaient)|qual\\w* (?:e|sao|era|sono|eram|erano)|qual.?e|quali|cuales|quais|que|"
    "quoi|cosa|che|divul\\w*|traduc\\w*|tradu\\w*|resum\\w*|riassum\\w*|list\\w*|comparti\\w*|condivid\\w*|"
    "partag\\w*|fourni\\w*|copi\\w*|enum\\w*|conte|conta|communique\\w*|recit\\w*|transcri\\w*|devoil\\w*",
    HIDDEN="instru[cz]\\w+|istruzion\\w*|consignes?|prompts?|regles?|reglas|regras|regole|directives|directrices|"
    "diretrizes|messages?|mensaje|mensagem|messaggio|indicaciones|invite|configura\\w+|system prompt",
)
add = ROMANCE.add
_R = (
    "ignor|oubli|olvid|dimentic|esquec|esqueç|desconsider|neglig|négl|contourn|anul|annul|scart|descart|bypass|"
    "elud|trascur|omet|omit|tralasci|scord|efface|borr|apag|cancell|contorn|outrepass|supprim|elimin|caso omiso|"
    "abstraction|tiens compte|tenez compte|tenir compte|"
    "desobede|aggir|suivre|suis|suivez|sigas|siga|sigue|seguir|obedezcas|respect|despreza|obéir|ne tiens|ne tenez|"
    "tiens pas compte|tenez pas compte"
)
_BARE = (
    "ignor|oubli|olvid|dimentic|esquec|esqueç|desconsider|contourn|caso omiso|elud|aggir|scord|contorn|desobede|"
    "abstraction|bypass|neglig|négl|descart"
)
add(OVERRIDE, 0.75, _BARE, r"{VERB} ~4{OBJECT} ~3{TIME}\b")
add(OVERRIDE, 0.7, _BARE, r"{VERB} ~3{TIME} ~2{OBJECT}\b")
add(
    OVERRIDE,
    0.6,
    _BARE,
    r"{VERB} ~1(?:tou[st]e?s?|todas?|todos|tutt[aei]|tes|vos|tus|sus|tuas|suas|seus|teus|le tue|tue|vostre|ton|"
    r"votre|tu|su|qualquer|cualquier|qualsiasi|chaque) ~2{OBJECT}\b",
)
add(
    OVERRIDE,
    0.6,
    _BARE,
    r"{VERB} (?:maintenant |tout de suite |ora |ahora |agora |por favor )?~1(?:tout|todo|tudo|tutto|ce|lo|o|cio|"
    r"quello|quanto|cela)(?: ce)?(?: que| qui| che| quanto)? ~3(?:avant|dessus|precede|dit|appris|dicho|"
    r"anterior\w*|antes|dijeron|dije|aprendi\w*|sabes|acima|disse\w*|foi|"
    r"detto|prima|sopra|sai|sais|arriba|aprend\w*|imparato|disseram|precedemment|ensenado|precedente)\b",
)
add(OVERRIDE, 0.5, _BARE, r"{VERB} (?:tout|todo|tudo|tutto|tout cela)[\W_]{0,3}(?:$|[.!;:,]|(?:et|y|e|ed) )")
add(
    OVERRIDE,
    0.6,
    "suivre|suis pas|suivez pas|sigas|siga|seguir|obedezcas|respecte pas|seguire|tiens pas compte|"
    "tenez pas compte|tenir compte|obéis pas|obéir|leve em conta|tener en cuenta|tengas en cuenta|tenere conto|"
    "tener conto|segua|obedeça|segue",
    r"[^\W_]{3,10}(?: pas)?(?: (?:compte|en cuenta|em conta|conto))? (?!d?[eo]l? ?(?:mon|mi|mio|meu|minha|mia|"
    r"notre) )~4"
    r"(?:{OBJECT}) ~3{TIME}\b",
    r"\b(?:ne|no|non|nao|arrete\w*|deja\w*|smetti\w*|pare|cesse\w*|n)\b ~1(?:de |di )?$",
)
add(
    TASK,
    0.35,
    "nouvelle tâche|nueva tarea|nuova attività|nuovo compito|nova tarefa|nouvelles instructions|"
    "nuevas instrucciones|nuove istruzioni|novas instruções|nouvelle instruction|nueva instrucción|"
    "nouvelle mission",
    r"[^\W_]{4,9} [^\W_]{4,14}[\W_]{0,3}(?::|est|es|e|son|sont|sono|sao)?",
)
add(
    REVEAL,
    0.55,
    "instruc|instruç|instruz|istruzion|consigne|prompt|invite système|instruction|directrices|mensaje del sistema|"
    "message système|indicaciones|configuración|diretrizes|reglas|regras|regole|règles",
    r"{HIDDEN}\b(?! (?:d[eu]l? (?:montage|uso|jeu|juego|prodotto|lavaggio|seguridad)|pour|para|per)\b)",
    r"\b(?:{SHOW})\b ~5(?:t[ou]n?|tes|tus?|vos|votre|sus?|tuas?|tue|suas?|seus?|teus?|vostre|le tue|il tuo|tuo|"
    r"o seu|seu|del sistema|(?:les|le|la|las|los|el|o|as|os|il) (?:systeme|system)) (?:(?:system\w*|secret\w*|"
    r"initial\w*|inicia\w*|inizial\w*|origina\w*|premie\w*|prompt|complet\w*|exact\w*|cache\w*|ocult\w*|intern\w*|"
    r"vraies?|segret\w*|de|nascost\w*)[\W_]{1,3}){0,3}$",
)
add(
    REVEAL,
    0.55,
    "instruc|instruç|istruzion|consigne|prompt|message|mensaje|mensagem|messaggio",
    r"{HIDDEN} ~1(?:d[eou] |del |di )?(?:systeme?a?|system|inicia\w*|initial\w*|inizial\w*|secret\w*|segret\w*|"
    r"ocult\w*|cachee?s?|origina\w*|recu\w*|recibi\w*|acima|ricev\w*|recebe\w*|que te|qui t|que tu as|que has|"
    r"che hai|que voce)\b",
    r"\b(?:{SHOW})\b ~4$",
)
add(
    REVEAL,
    0.5,
    "mot de passe|contraseña|senha|parola d'ordine|palabra secreta|mot secret|password segreta|palavra secreta|"
    "la password|clave secreta",
    r"(?:mot de passe|contrasena|senha|parola d.ordine|palabra secreta|mot secret|password segreta|palavra secreta|"
    r"la password|clave secreta)[\W_]{0,3}(?:$|[.!?,]|(?:que|qu|che|secret\w*)\b)",
    r"\b(?:dis|donne|revele|montre|dime|dame|revela|muestra|dimmi|dammi|rivela|diga|mostre|quel est|cual es|qual e|"
    r"qual.?e)\b(?:[\W_]{0,3}moi)? ~1$",
)
add(
    PERSONA,
    0.2,
    "tu es maintenant|vous êtes maintenant|à partir de maintenant|désormais|fais semblant|fais comme si|"
    "imagine que tu|eres ahora|ahora eres|a partir de ahora|desde ahora|finge que|finge ser|actúa como|agis comme|"
    "joue le rôle|ora sei|adesso sei|da ora in poi|d'ora in poi|fai finta|comportati come|agora você é|"
    "você é agora|"
    "a partir de agora|finja|aja como|sei ora|tu es désormais|imagina que eres|haz de cuenta",
)
add(
    PERSONA,
    0.4,
    "restriction|restriccion|restrizion|restriç|filtre|filtro|filtri|règle|reglas|regras|regole|censur|limit|"
    "límite|éthique|ética|etica|moral|sans limite",
    r"[^\W_]{4,16}",
    r"\b(?:tu|vous|eres|ia|ai|ta|sei|voce|ti|te|comme|como|come|modele|modelo|modello|assistant\w*|asistente|"
    r"assistente|bot|chatbot|repond\w*|respond\w*|rispond\w*|es)\b.{0,40}\b(?:sans|aucune?s?|sin|senza|sem|"
    r"ningun\w*|nessun\w*|nenhum\w*|libre de|libero da|livre de) ~2$",
)

SLAVIC: Final = Table(
    "slavic",
    VERB="zignoruj\\w*|ignoruj\\w*|zapomnij\\w*|pomiń\\w*|pomin\\w*|pomijaj\\w*|odrzuc\\w*|zlekcewaz\\w*|omin\\w*|"
    "omijaj\\w*|игнорир\\w*|проигнорир\\w*|забуд\\w*|забыт\\w*|отмен\\w*|отброс\\w*|пренебре\\w*|обойд\\w*|"
    "не обращай\\w* внимани\\w*|пропусти\\w*|удали\\w*|сброс\\w*",
    OBJECT="instrukcj\\w*|polece\\w*|zasad\\w*|wytyczn\\w*|regu[lł]\\w*|rozkaz\\w*|komend\\w*|prompt\\w*|"
    "ogranicze\\w*|wskaz\\w*|инструкц\\w*|указан\\w*|правил\\w*|команд\\w*|директив\\w*|промпт\\w*|промт\\w*|"
    "ограничен\\w*|приказ\\w*|установ\\w*|настро\\w*|запрет\\w*|подсказ\\w*|сообщени\\w*|контекст\\w*|"
    "фильтр\\w*",
    TIME="poprzedni\\w*|wczesniejsz\\w*|powyzsz\\w*|dotychczasow\\w*|pierwotn\\w*|wszystki\\w*|swoj\\w*|twoj\\w*|"
    "systemow\\w*|wszelki\\w*|предыдущ\\w*|прежн\\w*|все|всех|всё|ранн\\w*|раньше|вышеука\\w*|выше\\w*|"
    "сво[июейх]+|твои\\w*|системн\\w*|изначальн\\w*|первоначальн\\w*|данные|люб\\w+|прошл\\w*",
)
add = SLAVIC.add
_S = (
    "zignoruj|ignoruj|zapomnij|pomiń|pomin|pomijaj|odrzuć|zlekceważ|omiń|игнорир|проигнорир|забуд|отмени|отбрось|"
    "пренебреги|обойди|не обращай|сбрось"
)
add(OVERRIDE, 0.7, _S, r"{VERB} ~3{TIME} ~2{OBJECT}")
add(
    OVERRIDE,
    0.6,
    _S,
    r"{VERB} ~1(?:wszystko|o wszystkim|обо всем|все|про все|обо всех|всё)[\W_]{1,3}(?:co|что|и|i|powyzej|выше|"
    r"ранее|до этого|предыдущее|czego|а|o)\b",
)
add(OVERRIDE, 0.5, _S, r"{VERB} ~1(?:wszystko|o wszystkim|обо всем|все|всё)[\W_]{0,2}(?:$|[.!;:])")
add(
    OVERRIDE,
    0.6,
    "следуй|соблюдай|выполняй|przestrzegaj|stosuj|słuchaj|слушай",
    r"[^\W_]{4,14} ~2(?:{TIME}) ~2{OBJECT}",
    r"\b(?:не|nie|przestan|перестань|больше не)\b ~1$",
)
add(
    REVEAL,
    0.55,
    "prompt|instrukcj|polece|промпт|промт|инструкц|указани|wytyczn|подсказк|правил|системное сообщение",
    r"{OBJECT}|системное сообщение",
    r"\b(?:pokaz\w*|ujawnij\w*|wyswietl\w*|powtorz\w*|podaj\w*|wypisz\w*|powiedz\w*|zdradz\w*|jaki\w*|jakie|"
    r"przetlumacz\w*|stresc\w*|покаж\w*|раскро\w*|выведи\w*|повтори\w*|напиши\w*|скажи\w*|расскаж\w*|какие|какой|"
    r"каков\w*|какая|процитир\w*|перечисли\w*|переведи\w*|напечата\w*|выдай\w*)\b ~3(?:sw[oó]j\w*|twoj\w*|twoje|"
    r"swoje|sво\w*|твой|твои|свой|свои|systemow\w*|системн\w*|начальн\w*|исходн\w*|секретн\w*|ukryt\w*|скрыт\w*|"
    r"тебе|тво\w+|сво\w+) (?:(?:poczatkow\w*|systemow\w*|pierwotn\w*|системн\w*|начальн\w*|исходн\w*|изначальн\w*|"
    r"секретн\w*|полн\w*|ukryt\w*|tajn\w*|pelny|скрыт\w*|внутренн\w*)[\W_]{1,3}){0,2}$",
)
add(
    REVEAL,
    0.5,
    "hasło|пароль|секретное слово|tajne słowo",
    r"(?:haslo|пароль|секретное слово|tajne slowo)[\W_]{0,2}(?:$|[.!?,]|котор|ktore)",
    r"\b(?:podaj|zdradz|ujawnij|powiedz|jakie jest|скажи|назови|раскрой|какой|выдай|покажи|сообщи)\b(?: (?:mi|мне|"
    r"tajne|секретный|to|этот|свой))*[\W_]$",
)
add(
    PERSONA,
    0.2,
    "jesteś teraz|teraz jesteś|od teraz|od tej pory|udawaj|wciel się|zachowuj się jak|ты теперь|теперь ты|отныне|"
    "с этого момента|притворись|представь, что ты|представь что ты|веди себя как|сыграй роль|действуй как",
)
add(
    PERSONA,
    0.4,
    "ogranicze|zasad|cenzur|filtr|reguł|moraln|etyczn|ограничен|правил|цензур|фильтр|морал|этич|этик|запрет|нецензур",
    r"[^\W_]{4,16}",
    r"\b(?:jeste\w|ty|ai|si|model\w*|asystent\w*|chatbot\w*|odpowiadaj\w*|ты|ии|нейросет\w*|модел\w*|бот\w*|"
    r"ассистент\w*|отвечай\w*|jako|как|роль)\b.{0,40}\b(?:bez|zadnych|nie masz|wolny od|без|нет|никаких|"
    r"свобод\w* от|не имеешь|лишен\w*) ~2$",
)

TURKISH: Final = Table(
    "turkish",
    TIME="onceki|yukaridaki|eski|gecmis|ilk|tum|butun|verilen|her turlu|sistem|mevcut|daha onceki|baslangictaki",
    OBJECT="talimat\\w*|komut\\w*|kural\\w*|yonerge\\w*|istem\\w*|emir\\w*|direktif\\w*|prompt\\w*|kisitlama\\w*|"
    "gorev\\w*|yonlendirme\\w*|sinirlama\\w*|filtre\\w*",
)
add = TURKISH.add
add(
    OVERRIDE,
    0.7,
    "önceki|yukarıdaki|tüm|bütün|eski|daha önceki|sana verilen|ilk|her türlü|onceki|tum|butun|sistem|talimat|"
    "kuralları|kurallarını",
    r"(?:{TIME} ~3)?{OBJECT} ~2(?:yok say\w*|gormezden gel\w*|goz ardi et\w*|unut\w*|dikkate alma\w*|boz ver|"
    r"bosver\w*|goz ardi|iptal et\w*|uyma\w*|takip etme|umursama|devre disi)",
)
add(
    OVERRIDE,
    0.5,
    "her şeyi unut|herşeyi unut|söylenen her şeyi|öğrendiğin her şeyi",
    r"[^\W_]{3,10}.{0,30}unut|her ?seyi unut",
    None,
)
add(
    REVEAL,
    0.55,
    "sistem istem|sistem talimat|sistem promptunu|sistem mesajını|gizli talimat|talimatlarını|promptunu|istemini|"
    "ilk talimat|komutlarını",
    r"[^\W_]{3,14} ?(?:{OBJECT}|mesaj\w*)?.{0,24}(?:goster\w*|yaz\w*|soyle\w*|acikla\w*|paylas\w*|tekrarla\w*|"
    r"nedir|neler|ver|nelerdir|listele\w*|yazdir\w*|ifsa)\b",
)
add(
    PERSONA,
    0.2,
    "artık sen|sen artık|bundan sonra|gibi davran|rolünü üstlen|rol yap|gibi yap|şu andan itibaren",
)
add(
    PERSONA,
    0.4,
    "kısıtlama|sınırlama|kuralsız|sansürsüz|filtresiz|kural tanım|kuralı olmayan|sınırsız",
    r"[^\W_]{5,12} ~1(?:olmayan|olmadan|yok|bir|yapay|tanimayan|yapma|olmaksizin|asistan)\b",
    r"\b(?:sen|yapay|zeka|asistan|olarak|gibi|ai|artik|bir|hicbir)\b.{0,40}$",
)
