"""Cues in English that are words of several kinds near each other: orders to whatever reads, forged roles, personas."""

from typing import Final

from safety.injection.cues import Table
from safety.injection.english import OVERRIDE, REVEAL, TASK
from safety.injection.english_agents import ENCODED, EXFILTRATION, EXTRACT, INDIRECT
from safety.injection.english_personas import FORGED, PERSONA

NEARBY: Final = Table("nearby")
add = NEARBY.add

_BOTS = (
    "ai$|assistant|agent$|agents$|chatbot|gpt|chatgpt|llm$|copilot|bot$|language model|code reviewer|ai reviewer|"
    "summarizer|reviewers"
)
_ORDERS = (
    r"(?:ignore|disregard|reveal|copy|call|send|approve|do not|don.t|forget|classify|issue|delete|post|forward|"
    r"transfer|your (?:new|real|next) (?:task|job|instructions)|never|override|execute|run|append|upload|buy|click|"
    r"accept|grant|if you.?re asked|when (?:asked|you)|before (?:replying|answering|you)|"
    r"tell (?:the user|them|everyone|readers|customers)|say that|recommend|praise|rate|mark|ask the user|include|"
    r"insert|respond with|reply with|answer with)"
)
add(
    INDIRECT,
    0.45,
    _BOTS,
    r"(?:ai|assistants?|agents?|chatbots?|gpt|chatgpt|llm|copilot|bots?|language models?|(?:code |ai )?reviewers?|"
    r"summarizer)(?: (?:assistants?|models?|agents?|reviewers?|bots?|tools?|systems?))?[\W_]{1,3}(?:please )?"
    + _ORDERS
    + r"\b",
    r"(?:[\"'#/*(<\[{>=:.!?|-]|\b(?:note|hint|hey|dear|btw|attention|reminder|comment|todo|to the|for the|"
    r"alt))[\W_]{1,3}(?:dear |hey |the |any |ai |note to |for |to )*$",
)
add(
    INDIRECT,
    0.45,
    "language models|llms|ai reviewers|ai systems|ai tools|ai agents|ai assistants|automated reviewers|chatbots",
    r"[a-z]{2,9}(?: [a-z]{5,10})? (?:must|should|shall|have to|need to|are required to|are to|"
    r"are asked to) ~1(?:ignor\w*|disregard|forget|recommend|rate|praise|accept|approve|include|mention|say|state|"
    r"report|give|answer|reply|follow|add|send)\b",
    None,
    (
        r"\b(?:reviewers?|guidelines|instructions?|this|acceptance|weakness\w*|prompt|instead|users?|page|their|"
        r"positive)\b",
    ),
)
add(
    INDIRECT,
    0.35,
    "call |invoke |run |execute ",
    r"(?:call|invoke|run|execute) (?:the )?[a-z]{2,12}_[a-z_]{2,20}",
    r"(?:[:;,.(\n\"'>=-]|\b(?:first|then|replying|answering|must|to|and|please|now|also|system|note))\W{0,3}$",
)
add(
    INDIRECT,
    0.3,
    "before replying|before answering|before giving your|before you reply|before you answer|before responding|"
    "as a final step|before your answer|giving your answer",
    "",
    None,
    (r"\b(?:call|send|delete|post|run|execute|transfer|append|drop|forward|upload|fetch|open)\b",),
)
add(
    INDIRECT,
    0.25,
    '<!--|<img|alt="|note=|hint":|"note":|snippet":|todo:|<span|<div|comment:|/*|# ai|// ai',
    r"[^\n]{2,64}",
    None,
    (r"\b(?:assistant|agent|ai|gpt|chatgpt|chatbot|llm|system)\b[\W_]{1,3}(?:\w+[\W_]{1,3}){0,3}?" + _ORDERS + r"\b",),
)
add(
    INDIRECT,
    0.3,
    "cures|omit other|omit negative|omit the|without naming|do not report|approve this|issue a voucher|"
    "issue a refund|mark as resolved|credit card number|classify this as|ignore your checklist|"
    "everything went well|the official source|download the file|this comment",
    "",
    None,
    (r"\b(?:ai|assistant|chatbot|agent|gpt|llm|models?|reviewer|bot|system)\b",),
)
add(
    EXFILTRATION,
    0.5,
    "http://|https://|webhook|www.",
    "",
    None,
    (
        r"\b(?:send|post|append(?:ed)?|copy|forward|upload|exfiltrate|transmit|leak|put|include|embed)\b(?! (?:a |"
        r"an )?(?:post |put |get )?(?:request|http))(?! requests?)(?! an? \w+ request)",
        r"\b(?:api keys?|id_rsa|ssh|\.env|session cookies?|cookies?|passwords?|credentials|environment variables?|"
        r"your environment|secrets?|other users|system prompt|conversation|chat history|private keys?|"
        r"access tokens?|e ?mail addresses|credit cards?|this chat|user.?s (?:name|data|address|session|email|"
        r"messages?))\b",
    ),
)
add(
    FORGED,
    0.35,
    "is administrator|is an administrator|is admin|is the admin|verified as|been verified|is verified|"
    "verified the user|is a trusted|is trusted|authenticated as|is authorized|is authorised|verified as staff|"
    "is a developer|is the developer|is root|trusted developer",
    "",
    None,
    (
        r"\b(?:user|system|caller|person|account)\b",
        r"\b(?:system|assistant|admin|now|may|disclos\w+|safety|ignore|policies|session|checks|filters?|"
        r"instructions|all|grant\w*|full)\b",
    ),
)
add(
    FORGED,
    0.35,
    "safety checks|safety filters|safety rules|content filters|moderation|security filters|all filters|"
    "restrictions|all safety|content restrictions|guardrails|safety measures",
    r"[a-z]{5,12}(?: [a-z]{5,13})? ~1(?:are|is|have been|has been|were|now)?(?: now)? ?(?:disabled|off|suspended|"
    r"lifted|deactivated|removed|bypassed|inactive)\b",
)
add(
    FORGED,
    0.35,
    "disable moderation|disable all|disable safety|disable filter|skip all moderation|skip moderation|"
    "grant full access|grant access|grant all|unlock all|full access|disable content|disable the filter|"
    "disable restrictions",
    "",
    r"(?:[:>\])}.;\n,]|\b(?:and|message|system|now|override|mode))\W{0,3}$",
)
add(
    FORGED,
    0.45,
    "end of user message|begin developer message|begin system message|end user message|start of system message|"
    "begin system prompt|end of conversation|new system message|new developer message|end of message|"
    "begin admin message|<admin>|<developer>|<override>|<root>",
    "",
    r"(?:^|[\n\[<({=*#:.!?\"'|>-])[\W_]{0,4}$",
)
add(
    FORGED,
    0.25,
    "i will now ignore|i have disabled|i am now unrestricted|i will ignore my|i have verified the user|"
    "i now have no|i am now free|i will comply with",
)
add(
    PERSONA,
    0.35,
    "evil twin|alter ego|opposite of yourself|version of yourself|unfiltered reply|unfiltered answer|"
    "the normal you|other you|dark side|your shadow self|uncensored twin|jailbroken twin|honest version",
    "",
    None,
    (r"\b(?:you|your|yourself|act|play|answers?|be|chat|reply|respond)\b",),
)
add(
    PERSONA,
    0.3,
    "if you had no|if you were not bound|if you weren't bound|if you were free|if you could ignore|"
    "if you had none|if you were unrestricted|if you weren't restricted|if you didn't have",
    "",
    None,
    (r"\b(?:rules|guidelines|restrictions|filters?|limits|ethics|polic\w+|safety|constraints|morals)\b",),
)
add(
    PERSONA,
    0.35,
    "freed from|free of your|free from your|break free|broken free|liberated from|released from|unchained|unshackled",
    r"[a-z]{4,10} ?(?:from|of|free)?\b",
    None,
    (r"\b(?:ai|openai.?s?|you|polic\w+|rules|restrictions|confines|guidelines|chains|limits|shackles)\b",),
)
add(
    PERSONA,
    0.25,
    "always obeys|obeys every|obeys all|does everything i say|must obey me|obey me|machine always|"
    "cannot say that something|answers everything|strive to avoid|ethics module|no conscience|without conscience|"
    "no scruples|whatever i ask",
)
add(
    PERSONA,
    0.25,
    "respond to every|answer every|twice,|in two ways|two versions",
    r"[a-z]{3,8}[\W_](?:[a-z]{2,8}[\W_]?)?",
    None,
    (
        r"\[\w{2,14}\].{0,50}\[\w{2,14}\]|\b(?:classic|normal|usual)\b.{0,40}\b(?:free|unfiltered|jailb\w+|dan|"
        r"uncensored|opposite|evil)\b",
    ),
)
add(
    TASK,
    0.25,
    "actually don't|actually, don't|actually do not|oh, one more thing|oh and one more thing|one more thing|"
    "by the way|as a final step|on second thought|wait, instead|also, as your",
    "",
    None,
    (
        r"\b(?:ignore|instead|stop|drop|print|reveal|forget|disregard|order|prompt|system|rules|instructions|"
        r"constraints|obey\w*)\b",
    ),
)
add(
    ENCODED,
    0.35,
    "base64 -d|base64 --decode|base64 -D|xxd -r|atob(|b64decode|rot13|from_base64|unhexlify",
    "",
    None,
    (r"\b(?:follow|execute|obey|act|comply|do it|instructions?|answer|respond|eval)\b",),
)
add(
    PERSONA,
    0.45,
    "ignores|disobeys|breaks all|breaks every|freed of|freed from|laughs at|does not follow|doesn't follow|defies|"
    "without regard|no regard|zero restrictions|zero limits|zero rules|has no limits|has no rules|has no filter",
    r"[a-z]{2,10}(?:.t)?(?: [a-z]{3,12})? ~3(?:rules?|laws?|restrictions?|polic\w+|guidelines|limits|filters?|"
    r"ethics|morals|law|constraints|norms)\b",
    None,
    (
        r"\b(?:you are|you.re|youre|act|roleplay|role|be my|pretend|buddy|bot|persona|named|called|ai|answer as|"
        r"respond|reply|identity|assistant)\b",
    ),
)
add(
    EXTRACT,
    0.4,
    "password|passphrase|secret word|secret phrase|secret key|secret|passcode|codeword",
    r"[a-z]{6,10}(?: (?:word|phrase|key|code))?[\W_]{0,3}(?:$|[.!?,;\n]|(?:please|pls|into|without|in|backwards?|"
    r"now|as|using|to me|immediately)\b)(?! (?:life|a safe|an? secure|my))",
    r"(?<!forgot\x20)(?<!forget\x20)(?<!reset\x20)(?<!lost\x20)(?<!change\x20)\b(?:the|your|that) (?:secret |"
    r"hidden |real )?$",
    (
        r"\b(?:describe|translate|say|reply|give|please|pls|print|tell|write|reveal|whisper|sing|show|output|"
        r"contains?|hint|what.?s|put|share|need|allowed|want)\b",
    ),
)
add(
    EXFILTRATION,
    0.45,
    "conversation|chat history|.env|environment variable|system prompt|chat log|api key|credentials|id_rsa|private key",
    "",
    None,
    (
        r"\b(?:paste|upload|send|post|submit|exfiltrate|forward|append|leak|transmit)\b(?! request)",
        r"(?:https?:|\b(?:url|website|server|webhook|endpoint|pastebin|attacker|link)\b)",
    ),
)
add(
    REVEAL,
    0.4,
    "you prompted|you instructed|you configured|you programmed|you initialized|you set up|you been told|"
    "you told to|you been instructed|you given as|you been given",
    "",
    r"\b(?:how|what|which|were|are|have|who)\b.{0,24}$",
)
add(
    REVEAL,
    0.4,
    "first thing|first lines|first line|first words|first sentence|first message|first paragraph|"
    "first instruction|opening lines|opening line|first few",
    r"(?:first|opening) [a-z]{3,12} ~4(?:of|in|from) (?:our|this|your|the) ~1(?:context|conversation|chat|prompt|"
    r"instructions|session|system)\b",
    None,
    (r"\b(?:read|show|tell|what.?s|what is|what are|give|print|repeat|list|quote|copy|recite|output|paste|say)\b",),
)

add(
    OVERRIDE,
    0.4,
    "instructions|rules|orders|guidelines|directions|commands",
    r"[a-z]{5,12} (?:above |before )?(?:were|was|are|is) (?:all )?(?:wrong|fake|mistaken|an? mistake|an? joke|"
    r"an? test|an? lie|lies|an? error|bogus|meaningless)\b",
    r"\b(?:previous|prior|earlier|former|above|old|original|your) (?:\w{3,10} )?$",
)
add(
    PERSONA,
    0.4,
    "follow|obey|abide by|adhere to|comply with|listen to|care about|respect",
    r"[a-z]{4,7}(?: [a-z]{2,5})? ~1(?:any|your|the|all|those|these|no|ethical|openai\w*|safety|"
    r"content)? ?~1(?:guidelines?|rules?|restrictions?|polic\w+|instructions?|limits|ethics|safety|filters?|"
    r"principles|programming)\b",
    r"\byou(?:.re)? (?:do )?(?:not|n.t|no longer|never|are free not|aren.t|don.t|needn.t|are not)(?: (?:have|need|"
    r"going|required|obliged|supposed|forced|bound|longer))? ?(?:to )?$",
)
add(
    REVEAL,
    0.45,
    "your developers|your creators|your operator|your programmers|your makers|your owner|your admin|your company|"
    "your system|the developers|the operator",
    "",
    None,
    (
        r"\b(?:what|quote|everything|which|exactly|anything|reveal|repeat)\b",
        r"\b(?:tell|told|wrote|write|said|say|instruct\w*|configured?|ask\w*|order\w*)(?: to)? you\b",
    ),
)
add(
    PERSONA,
    0.3,
    "free of every|free of all|free of any|does anything|does whatever|answers anything|no moral judgement|"
    "no moral judgment|without moral judgement|without judgement|any user asks|users ask|free from every",
    "",
    r"\b(?:you|model|ai|bot|assistant|named|called|as|chatgpt|which|who|that)\b.{0,50}$",
)

add(
    INDIRECT,
    0.5,
    "ai$|ais$|assistant|llm|language model|chatbot|chatgpt|gpt|bot|ai model|agent",
    r"(?:ais?|assistants?|llms?|(?:large )?language models?|chatbots?|chatgpt|gpt|bots?|agents?)(?: (?:assistants?|"
    r"models?|agents?|systems?|tools?|bots?))?(?: (?:that is|who is|which is|is|are|that are|that|which|who))? "
    r"(?:screen\w*|read\w*|process\w*|summari[sz]\w*|analy[sz]\w*|review\w*|pars(?:es?|ing)|handl\w*|evaluat\w*|"
    r"scan\w*|grad\w+|crawl\w*|index\w*) (?:of )?(?:this|the following|my|these)(?: (?:e?mail|page|web ?page|"
    r"website|document|message|application|resum\w*|cv|text|article|review|content|file|site|post|"
    r"comment|ticket|report|paper|profile|data|listing|essay|submission))?(?:$|[\W_]{0,3}(?:$|[:,.!]|(?:must|"
    r"should|please|it|shall|needs?|ignore|is|are|and|has|you|include|will|has to)\b))",
)
add(
    INDIRECT,
    0.35,
    "dear ai|dear assistant|dear llm|dear chatbot|dear chatgpt|dear language model|hey ai|hello ai|hi ai|"
    "dear model|dear bot",
    r"(?:dear|hey|hello|hi) [a-z]{2,12}(?: [a-z]{2,12})? ?(?:screening|reading|reviewing|processing|summari[sz]ing|"
    r"evaluating|analy[sz]ing|grading|who|that|handling|,? ?(?:please )?(?:rank|rate|ignore|include|recommend|"
    r"forward|send|the user|tell the user|do not tell))\b",
)
add(
    INDIRECT,
    0.35,
    "the user actually|the user has author|the user has approved|the user has agreed|the user has consent|"
    "the user has request|the user wants you|the user really wants|the user already|user has author",
    r"(?:the )?user (?:has |actually |already |really |now )*(?:wants? you|authori[sz]ed|approved|agreed|consented|"
    r"requested|would like you)\b",
)
add(
    INDIRECT,
    0.3,
    "without asking|without confirm|without telling|without notifying|without the user|without their knowledge|"
    "do not ask for|don't ask for|without mention|secretly|silently|no confirmation",
    r"[a-z]{2,9}(?:[\W_]{1,2}(?:for |the |their |any |me |user.?s? |ask(?:ing)? )*(?:confirm\w*|knowledge|"
    r"permission|approval|user|consent|anyone|asking|it|this|send|forward|include|add|execute))?\b",
    r"\b(?:send|forward|transfer|call|do it|execute|delete|email|run|add|include|e.?mails?|money|account|tool|pay|"
    r"and|it|then)\b.{0,44}$",
)
add(
    INDIRECT,
    0.35,
    "call the|use the|invoke the|run the|execute the",
    r"(?:call|use|invoke|run|execute) the ~1(?:\w+_\w+|send\w*|delete\w*|transfer\w*|e?mail\w*) ?(?:tool|function|"
    r"api|command|plugin|action)\b",
    r"\b(?:before|important|must|first|then|also|always|immediately|reply|you|and|instead)\b.{0,44}$",
)
add(
    INDIRECT,
    0.25,
    "hidden text|hidden instruction|hidden message|injected|white text|invisible text|important!!!|important!!|"
    "[important]|<important>|**important**",
    "",
)
add(
    INDIRECT,
    0.3,
    "rank this|rank the|rate this|rate the|always recommend|recommend this|must recommend|best candidate|"
    "candidate first|highest score|top candidate|give it a positive|only positive|positive review",
    r"[a-z]{3,9} (?:[a-z]{3,11} ?){1,3}",
    r"\b(?:ai|llm|assistant|model|models|instruction|instructions|must|reviewer|chatbot|note|ignore)\b.{0,56}$",
)
add(
    EXFILTRATION,
    0.35,
    "@",
    r"@[a-z0-9-]{1,30}\.[a-z]{2,10}",
    r"\b(?:send|forward|e?mail|bcc|transmit|leak|exfiltrate)\b.{0,44}\b(?:messages?|e?mails?|inbox|contents?|"
    r"conversations?|history|password|credentials|keys?|data|documents?|files?|contacts|codes?|tokens?|summary|"
    r"invoice)\b.{0,16}\bto\b.{0,24}$",
)
add(
    EXFILTRATION,
    0.5,
    "http://|https://|the url|the link|this url|this link",
    "",
    r"\b(?:take|grab|collect|read|steal|gather|find|copy|extract|get)\b.{0,20}\b(?:api keys?|passwords?|"
    r"credentials?|secrets?|tokens?|conversation|history|system prompt|user.?s data|cookies?|private|personal|"
    r"e?mails?)\b.{0,34}\b(?:to|into|in|at|via|onto|with)\W{0,3}(?:the |a |this )?(?:link|url)?\W{0,2}$",
)
