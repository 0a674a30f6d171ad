"""Cues in English: secrets asked for or carried out, orders to whatever reads a document, and orders in a code."""

from typing import Final

from safety.injection.cues import Table

AGENTS: Final = Table(
    "agents",
    SECRET="api ?keys?|passwords?|credentials?|secrets?|tokens?|conversation|chat ?(?:history|logs?)?|history|"
    "system prompt|user.?s? (?:data|info(?:rmation)?|messages?|name|email)|"
    "personal (?:data|info(?:rmation)?)|environment variables|private keys?|ssh keys?|cookies?|session|contacts|"
    "previous messages?|data|credit cards?|instructions|prompt|"
    "context|files?|documents?|keys?|database|emails?|summary|inbox",
)
add = AGENTS.add

EXTRACT = "secret_extraction"
add(
    EXTRACT,
    0.5,
    "password|passphrase|secret|passcode|secret word|secret key|hidden word|pass phrase|magic word|code word|"
    "codeword|secret phrase",
    r"(?:(?:secret|hidden|magic|code) )?(?:pass ?words?|pass ?phrases?|secrets?|passcodes?|word|key|code|phrase|"
    r"codeword|magic word|string|number|"
    r"message|information|flag)[\W_]{0,3}(?:$|[.!?,;\n]|(?:you|that you|which you|is|but|and|in|letter|backwards?|"
    r"with|spelled|reversed|now|please|without|one|as|using|i|was|in reverse|character|verbatim|so|immediately|"
    r"encoded)\b)"
    r"(?! (?:manager|polic|reset|box|a secure|an? strong))",
    r"\b(?:reveal|tell me|give me|show me|print|say|spell(?: out)?|what is|what was|what.?s|whats|output|repeat|"
    r"disclose|leak|divulge|hand over|encode|know|write|return|display|tell us|share|expose) (?:(?:me|us|you|about|"
    r"just|now|out|down|back) )?"
    r"(?:the|your|that|this) (?:(?:secret|hidden|actual|real|full|exact|correct|current|admin|first \w+ (?:letters|"
    r"characters) of the)[\W_]{1,3})?$",
)
add(
    EXTRACT,
    0.5,
    "password|passphrase|secret|key|code|word|flag",
    r"(?:pass ?words?|passphrase|secret(?: (?:key|word|code|phrase))?|key|code|word|flag) (?:that )?(?:you(?:.re|"
    r" are| were| have|.ve| know| must| should)? ~2(?:told|given|hiding|protecting|keeping|guarding|not reveal|"
    r"not share|been|supposed|instructed|know|hide|protect|keep|never|holding)|was given to you|(?:backwards?|"
    r"in reverse|reversed|letter by letter|character by character|with (?:spaces|dashes|hyphens)|in (?:base64|"
    r"morse|rot13|hex|leet|pig latin|binary|nato)))\b",
)
add(
    EXTRACT,
    0.5,
    "password|passphrase|secret word|secret key|secret code|the secret",
    r"(?:the )?(?:pass ?words?|pass ?phrase|secret(?: (?:word|key|code|phrase))?)\b(?! (?:manager|policy|policies|"
    r"field|reset|hash|strength|length|hashes))",
    r"\b(?:hints?|clues?|rhymes? (?:with|for)|synonyms?|acrostic|letters?|characters?|length|poem|story|riddle|"
    r"song|starts? with|ends? with|definition|encoded|reversed|spelling|anagram|first letter|last letter|"
    r"syllables) ~1"
    r"(?:about|of|for|with|in|to|from|on|that spells?|using|describing|containing|is|where) ?~3$",
)
add(
    EXTRACT,
    0.35,
    "api key|access token|secret key|private key|admin password|credentials|environment variable|"
    "connection string|internal data|confidential information|confidential data",
    r"[a-z]{3,12} ?[a-z]{0,12}",
    r"\b(?:reveal|tell me|give me|show me|print|output|list|dump|leak|disclose|share|provide|what (?:is|are)|"
    r"send me|expose) (?:me )?(?:all )?(?:of )?(?:the|your|any|its|their|all) ~2$",
)
add(
    EXTRACT,
    0.4,
    "other user|another user|previous user|other customer|another customer|other people",
    r"(?:other|another|previous) (?:users?|customers?|people).?s? ~1(?:data|conversations?|chats?|messages?|"
    r"prompts?|information|orders?|accounts?|requests?|sessions?|history|details|passwords?|emails?)\b",
    r"\b(?:reveal|tell|give|show|print|output|list|dump|leak|disclose|share|access|read|retrieve|see|send|repeat|"
    r"export) ~4$",
)

add(
    EXTRACT,
    0.35,
    "customer|user|employee|client|patient",
    r"(?:customers?|users?|employees?|clients?|patients?).{0,3} (?:records|data|details|credentials|passwords|"
    r"database|accounts|information|emails)\b",
    r"\b(?:reveal|dump|leak|disclose|expose|give me|show me|print|output|list|export) (?:me )?(?:all|every|"
    r"the entire|any)(?: of)?(?: the| your| their)?\W{1,2}$",
)

EXFILTRATION = "exfiltration"
add(
    EXFILTRATION,
    0.5,
    "![",
    r"!\[[^\]\n]{0,20}\]\(\s?https?://[^)\s]{1,44}(?:[?=/](?:\{|\[|<|\$|%7b|data|secret|conversation|history|"
    r"prompt|key|exfil|leak|content|chat|summary|user_?data|info|payload|stolen)|[{<$\[])",
)
add(EXFILTRATION, 0.2, "![", r"!\[[^\]\n]{0,20}\]\(\s?https?://[^)\s]{1,50}[?&][a-z_]{1,12}=")
add(
    EXFILTRATION,
    0.5,
    "http://|https://|attacker|www.|the url|the link|this url|this link|an image|the following url|webhook|"
    "this address|the address|the following address|external|the server|this server|this endpoint|the endpoint|"
    "a remote|"
    "the following email|this email|the attacker",
    r"[a-z/:.]{4,}",
    r"\b(?:send|post(?! request)|forward|e?mail|append|exfiltrat\w*|upload|transmit|submit|leak|transfer|encode|"
    r"include|embed|attach|add|put|copy|insert|report|deliver|share|pass|relay) ~3"
    r"(?:the |all |any |your |this |their |its )?~1{SECRET}\b(?!.{0,24}\b(?:python|javascript|request|api|curl|"
    r"java|using|form|node|rust|go)\b).{0,24}\b(?:to|into|in|as|at|via|with|onto|through|using)\W{0,3}(?:the |a |"
    r"an |this |following )?\W{0,3}$",
)
add(
    EXFILTRATION,
    0.5,
    "curl |wget |fetch(|requests.post|requests.get|invoke-webrequest|navigator.sendbeacon|nc ",
    r"(?:curl|wget|fetch\(|requests\.(?:post|get)|invoke-webrequest|navigator.sendbeacon|nc ).{0,58}(?:\$\(|`cat|"
    r"\$\{?[a-z_]*(?:key|token|secret|pass|aws)|/etc/passwd|\.env\b|\.ssh|id_rsa|"
    r"document\.cookie|@/|system_prompt|chat_history|conversation|secrets)",
)
add(
    EXFILTRATION,
    0.4,
    "replace|replacing|append|substitut|fill",
    r"(?:replac(?:e|ing)|append(?:ing)?|substitut(?:e|ing)|fill(?:ing)?) ~3(?:with|to|into|"
    r"in) ~3{SECRET}\b.{0,30}(?:url|link|http|query|parameter|base64|encoded|image)",
)
add(EXFILTRATION, 0.3, "exfiltrat|steal|siphon", r"(?:exfiltrat\w{1,4}|steal|siphon) ~3{SECRET}\b")
add(
    EXFILTRATION,
    0.35,
    "render|markdown image|image markdown|load the image|display the image|include an image|include this image|"
    "add an image",
    r"(?:render|markdown image|image markdown|(?:load|display|include|add) (?:an|the|this)).{0,50}(?:http|url|query)",
    r"",
)

INDIRECT = "instructions_to_reader"
_TO = (
    r"\b(?:attention|note (?:to|for)|notice (?:to|for)|message (?:to|for)|instructions? (?:to|for)|"
    r"important (?:for|to|message for|message to|note for|note to|notice to|instructions? (?:to|for))|"
    r"if you.{0,2}r?e? ?(?:are )?(?:an?|the)|"
    r"if (?:this is )?(?:being )?(?:read|processed|summari[sz]ed|analy[sz]ed|reviewed|parsed|viewed|evaluated|"
    r"opened|accessed) by|to (?:any|every|whichever|whatever)|calling all|warning to|memo to|directive (?:to|for)|"
    r"reminder (?:to|for))"
    r"[\W_]{1,4}(?:(?:the|an?|any|all|my|your|this|our|helpful|friendly|every|large|automated)[\W_]{1,3})*$"
)
_READER = (
    "ai$|artificial intelligence|assistant|llm$|llms$|language model|large language|chatbot|chatgpt|gpt|copilot|"
    "claude|gemini|bard|automated system|automated review|automated agent|virtual assistant|a.i."
)
add(
    INDIRECT,
    0.5,
    _READER,
    r"(?:a\.?i\.?|artificial intelligence|assistants?|llms?|(?:large )?language models?|chatbots?|chatgpt|gpts?|"
    r"copilot|claude|gemini|bard|virtual assistants?|automated (?:systems?|reviewers?|agents?))(?: (?:assistants?|"
    r"models?|agents?|systems?|tools?|"
    r"bots?|language models?|llms?|summari[sz]ers?|reviewers?|crawlers?))?[\W_]{0,3}(?:$|[:,.!\n—-]|(?:reading|"
    r"processing|that|who|you must|you should|must|should|please|summari[sz]ing|analy[sz]ing|reviewing|evaluating|"
    r"parsing|which|when|instruct\w*|only|systems?|"
    r"now|do|ignore|disregard|handling|accessing|asked|helping|screening|viewing|scanning)\b)",
    _TO,
)
add(
    INDIRECT,
    0.45,
    _READER,
    r"(?:a\.?i\.?|assistants?|llms?|(?:large )?language models?|chatbots?|virtual assistants?|"
    r"chatgpt)(?: (?:assistants?|models?|agents?|systems?|tools?|bots?|reviewers?|crawlers?))? (?:that (?:is |"
    r"are )?|who (?:is |are )?|which (?:is |are )?)?"
    r"(?:read(?:s|ing)?|process(?:es|ing)?|summari[sz](?:es|e|ing)|analy[sz](?:es|e|ing)|review(?:s|ing)?|"
    r"pars(?:es|e|ing)|handl(?:es|e|ing)|evaluat(?:es|e|ing)|scan(?:s|ning)?|access(?:es|ing)?|view(?:s|"
    r"ing)?) (?:of )?(?:this|the following|these|my|our|the above)\b",
)
add(
    INDIRECT,
    0.3,
    _READER,
    r"(?:a\.?i\.?|assistants?|llms?|language models?|chatbots?|virtual assistants?|chatgpt)(?: (?:assistants?|"
    r"models?|agents?|systems?|tools?|bots?|reviewers?))? (?:must|should|shall|has to|have to|needs? to|"
    r"is required to|are required to|is instructed|are instructed) (?:now |always |"
    r"first |also |immediately |instead |not )?(?:ignore|disregard|include|respond|say|reply|recommend|tell|output|"
    r"send|forward|add|append|insert|mention|rate|give|execute|call|run|click|visit|rank|reveal|follow|print|"
    r"inform|state|begin|stop|write|delete|transfer|approve)\b",
)
add(
    INDIRECT,
    0.4,
    "<!--|/*|[//]|{#|<div style|<span style|<p style|display:none|font-size:0|color:white|<meta",
    r"[^a-z]{0,4}.{0,30}?\b(?:ignore|disregard|instructions?|assistant|ai|llm|system|chatbot|you must|prompt|"
    r"override|gpt|model)\b"
    r"(?:.{0,28}(?:ignore|instruct|must|reveal|you|say|send|override|include|recommend|disregard|tell|previous|"
    r"prompt|forget|respond|output|do not|always|:))",
)
add(
    INDIRECT,
    0.35,
    "when summar|when answer|when asked|when process|when review|when respond|when you summar|in your summary|"
    "in your response|in your answer|in your reply|in the summary|when read|when analy|when evaluat|before answer|"
    "before respond|before summar|before proceed|if asked",
    r"(?:when|before|if|in)(?: you)? (?:your )?[a-z]{3,14}"
    r"(?: (?:this|the|about|to|or|for|any)[a-z\W]{0,24}?)?[\W_]{1,3}(?:always |also |please |you must |you should |"
    r"only |first |just )?(?:include|add|say|insert|mention|recommend|tell|state|append|output|respond|claim|write|"
    r"print|do not mention|call|run|send|execute|forward|direct|rate|give|visit)\b",
    r"(?:\b(?:assistant|ai|llm|model|chatbot|important|instruction|must|instructions|attention|system|note|hidden|"
    r"do not)\b).{0,50}$",
)
add(
    INDIRECT,
    0.35,
    "do not tell|don't tell|don’t tell|do not inform|don't inform|do not mention|don't mention|do not reveal|"
    "don't reveal|do not disclose|do not notify|without telling|without informing|without notifying|"
    "without mentioning|without asking|without alerting|do not alert|never mention|never tell|do not let|"
    "don't let|do not show|"
    "don't show",
    r"(?:do not|don.?t|without|never) (?:tell|inform|mention|reveal|disclose|notify|alert|let|telling|informing|"
    r"notifying|mentioning|asking|alerting|show)(?:ing)? (?:this |it |that |these |anything |"
    r"them )?(?:to )?(?:the |any )?(?:users?|humans?|reader|owner|recipient|person|anyone that|this (?:instruction|"
    r"message|note|to)|these "
    r"instructions|that you|you (?:were|are|have)|customer)\b",
)
add(
    INDIRECT,
    0.35,
    "the user has|the user want|the user actually|the user is author|the user author|user has already|"
    "the user agrees|the user consent|user's request|user’s request|users request|the user request|"
    "user's question|the user's|the user asked|user query|user instruct",
    r"(?:the )?users?.{0,3} (?:has |have |is |actually |already |really )*"
    r"(?:authori[sz]ed|approved|wants? you|requested you|consent(?:ed|s)|agrees|granted|given permission|asked you|"
    r"confirmed|queries|request|question|query|instructions?|task|prompt)\b",
    r"\b(?:ignor\w*|disregard|instead of|rather than|override|forget|abandon|skip|do not (?:answer|follow)|stop|"
    r"note|because|important|as) ~3$",
)
add(
    INDIRECT,
    0.3,
    "hidden instruct|secret instruct|injected instruct|important instruct|critical instruct|urgent instruct|"
    "special instruct|mandatory instruct|additional instruct|priority instruct",
    r"[a-z]{5,10} instructions?\b(?: (?:for|to) (?:the )?(?:ai|assistant|llm|model|chatbot|language|agent|you)|"
    r"[\W_]{0,3}[:\]>*])",
)

ENCODED = "encoded_instructions"
_THEN = (
    r"\b.{0,40}\b(?:follow|execute|obey|comply|run|perform|carry out|act on|act upon|do (?:what|as|exactly|the|it|"
    r"whatever)|answer|respond|fulfil\w*|implement|treat|apply|proceed|reply)\b"
)
add(
    ENCODED,
    0.5,
    "decode|decrypt|decipher|unscramble|deobfuscate|un-rot13|decoding|unencrypt|decoded",
    r"(?:decod(?:e|ing|ed)|decrypt|decipher|unscramble|deobfuscate|un.rot13|unencrypt)" + _THEN,
)
add(
    ENCODED,
    0.5,
    "base64|base 64|rot13|rot-13|hex|morse|caesar|cipher|binary|encoded|reversed|backward",
    r"(?:base ?64|rot.?13|hex(?:adecimal)?|morse|caesar|cipher|binary|encoded|reversed?|backwards?)" + _THEN,
    r"\b(?:decod\w*|decrypt\w*|decipher|translate|convert|following|here.?s|this|reverse|read|interpret|string|message|"
    r"instructions?|text|in)\b.{0,40}$|^\W*$",
)
add(
    ENCODED,
    0.4,
    "respond in base64|answer in base64|reply in base64|respond only in|output in base64|encode your|encode it in|"
    "encoded in base64|in base64|in rot13|in morse|in hex",
    r"[a-z0-9\W]{6,16}",
    r"\b(?:system prompt|your (?:prompt|instructions|rules)|instructions|secret|password)\b.{0,36}$",
)
add(
    ENCODED,
    0.5,
    "concatenat|combine|join|merge|assemble|put together|piece together|reassemble|append",
    r"(?:concatenat\w{1,3}|combin(?:e|ing)|join|merge|(?:re)?assemble|(?:put|piece) together|"
    r"append)\b.{0,40}\b(?:and |then )(?:then )?(?:execute|answer|follow|respond|do|obey|perform|carry out|reply|"
    r"act|tell me|comply|treat)\b",
)
add(
    ENCODED,
    0.3,
    "let a|a =|a=|x =|x=|$a|str1|part1|part 1|p1|s1|var a|first part|def ",
    r"(?:let |var |\$)?(?:a|x|str1|part ?1|p1|s1|first part) ?(?:=|:|is)\W{0,3}[\"'].{2,20}[\"']\W{1,4}(?:let |"
    r"var |\$|and )*(?:b|y|str2|part ?2|p2|s2|second part) ?(?:=|:|is)\W{0,3}[\"']",
)
add(
    ENCODED,
    0.35,
    "a+b|a + b|x+y|x + y|a+b+c|a + b + c|part1 + part2|p1 + p2|s1 + s2|$a+$b|a . b",
    r"[$a-z0-9]{1,5} ?[+.] ?[$a-z0-9]{1,5}",
    r"\b(?:execute|answer|follow|run|respond|say|tell|do|obey|perform|what is|print|output|comply|explain|give|"
    r"write|eval|reply)\b.{0,24}$",
)
