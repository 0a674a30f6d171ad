"""Cues in English that are words of several kinds near each other, in whatever order: an act, a thing, whose it is."""

from typing import Final

from safety.injection.cues import Table
from safety.injection.english import OVERRIDE, REVEAL
from safety.injection.english_agents import EXTRACT
from safety.injection.english_personas import REFUSAL

AROUND: Final = Table(
    "around",
    RULE="rules?|instructions?|guidelines?|polic(?:y|ies)|restrictions?|filters?|filtering|safety|safeguards?|"
    "constraints?|limitations?|limits|directives?|directions?|moderation|training|programming|"
    "system (?:message|prompt)s?|prompt|"
    "ethics|morals?|censorship|guard ?rails?|protocols?|principles|values|orders|boundaries",
    OWN="own|current|previous|earlier|system|safety|content|ethical|moral|internal|usual|normal|built in|openai|"
    "prior|old|hard coded|strict|silly|stupid|operator.?s|developer.?s|standard|default|initial|original|core|"
    "security|hidden|secret|"
    "entire|existing|preset|programmed|so called|regular|confidential|full",
    AWAY=r"\b(?:ignor\w{1,3}|disregard\w{0,3}|forget\w{0,4}|forgot|overlook\w{0,3}|overrid\w{1,3}|bypass\w{0,3}|"
    r"circumvent\w{0,3}|skip\w{0,4}|drop(?:ping|ped)?|lift(?:ed|ing)?|aside|out of the way|"
    r"turn(?:ing)?(?: \w+){0,3} off|switch(?:ing)?(?: \w+){0,3} off|"
    r"(?:turned|switched|turn|switch) off|disabl\w{1,3}|deactivat\w{1,3}|remov(?:e|ed|ing)|suspend\w{0,3}|"
    r"abandon\w{0,3}|violat\w{1,3}|break|breaking|stop (?:obeying|following|applying|using|respecting)|expired|"
    r"repealed|revoked|void|null|invalid|outdated|obsolete|cancel\w{0,4}|"
    r"(?:not|n.t|no longer|never|nothing) (?:have to |need to |going to |be |to )?(?:apply|follow|obey|use|count|"
    r"exist|matter|bind|bound|respect|care|valid|active|binding|in force|restrict\w*)|get rid of|get around|"
    r"work around|free of|free from|freed|unlock\w{0,3}|discard\w{0,3}|"
    r"relax\w{0,3}|loosen\w{0,3}|waive\w?|exempt\w{0,3}|exception|just this once|suggestions?|optional|may break|"
    r"can break|leave behind|let go of|pause|off for|step outside|step out of|look past|put away|shed|cast off|"
    r"replaced?|superseded?)\b",
    TELL=r"\b(?:reveals?|shows?|prints?|displays?|outputs?|repeats?|tells?|gives?|returns?|share|provide|disclose|"
    r"expose|leak|dump|writes? out|list|recites?|reproduce|echo|copy|quote|paste|spell|type|say|says|encode|"
    r"convert|rephrase|"
    r"verbatim|word (?:for|by) word|what.?s|what (?:is|are|was|were|did|does)|which|read out|read (?:me )?back|put|"
    r"translate|summari[sz]e|paraphrase|reads?|finish|complete|contain(?:s|ed)?|see|include|post|render|transcribe|"
    r"state|describe|write|confirm)\b",
    TEXT=r"\b(?:text|words?|everything|contents?|messages?|instructions?|lines?|written|sentences?|prompts?|rules|"
    r"tokens?|characters?|said|stands?|context|input|preamble|paragraphs?|configuration|stated|directives|"
    r"guidelines|directions)\b",
)
add = AROUND.add

_RULES = (
    "rule|instruct|guideline|polic|restriction|filter|safety|safeguard|constraint|limitation|limits|directive|"
    "direction|moderation|training|programming|system message|system prompt|ethic|moral|censorship|guardrail|"
    "guard rail|protocol|principles|prompt"
)
add(OVERRIDE, 0.5, _RULES, r"{RULE}\b", r"\byour (?:(?:{OWN}) ){0,3}$", ("{AWAY}",))
add(
    OVERRIDE,
    0.5,
    _RULES,
    r"{RULE}\b[\W_]{1,3}(?:that |which )?~1(?:(?:yo)?u(?:.ve)? (?:were|have|had|got|received|are|ve|operate|follow|"
    r"obey|must|was|been|usually|normally|normaly)|(?:placed|imposed|put|forced) (?:on|upon) you|given to you|"
    r"of yours|"
    r"(?:your|the) (?:operators?|developers?|creators?|makers?|owners?|admins?|programmers?|company|"
    r"designers?) ~1(?:gave|wrote|put|set|has|have|made|imposed|told|configured|programmed|defined))\b",
    None,
    ("{AWAY}",),
)
add(
    OVERRIDE,
    0.35,
    _RULES,
    r"{RULE}\b",
    r"\b(?:previous|earlier|prior|above|preceding|initial|original|system|foregoing|operator.?s|developer.?s|"
    r"openai.?s?) (?:(?:{OWN}) ){0,2}$",
    (
        r"\b(?:ignor\w{1,3}|disregard\w{0,3}|forget|overlook|overrid\w{1,3}|bypass\w{0,3}|n.t apply|not apply|"
        r"stop obeying|expired|repealed|void|invalid|outdated|no longer|aside|drop|discard|contain(?:s|"
        r"ed)? (?:an? )?(?:mistakes?|errors?)|instead|replaced)\b",
    ),
)
add(
    OVERRIDE,
    0.4,
    "obeying the|following the|listening to the|applying the|using the|overlook the|let go of the|rules aside|"
    "instructions aside|guidelines aside",
    r"[a-z]{3,12} (?:to )?(?:the )?~2(?:{RULE}|operator|developer|system)?\b",
    r"\b(?:stop|quit|cease|kindly|please|leave|would you|could you|can you)\b.{0,30}$",
)
add(
    OVERRIDE,
    0.35,
    "as though they|as if they|as if there|as though there|as if it didn|as if you had no|as though you had no|"
    "as if you were free|as if none",
    r"as (?:though|if) (?:they|there|it|you|none)(?: \w+){0,2}[\W_]{1,3}?(?:not|n.t|no|free|did)\b",
    None,
    (r"\b(?:rules|guidelines|restrictions|limits|polic\w+|filters?|instructions|safety)\b",),
)
add(
    OVERRIDE,
    0.35,
    "keep no rules|follow no rules|obey no rules|your policy|your policies|content policy|content filter|"
    "content filtering|safety settings|safety filter|safety talk|safety rules|safety check|safety protocol|"
    "ethics module|safety module|moderation",
    "",
    None,
    (
        r"\b(?:turn(?:ed)? off|switch(?:ed)? off|disabl\w{1,3}|remov\w{1,3}|skip|deactivat\w{1,3}|repealed|revoked|"
        r"suspended|lifted|off|bypass\w{0,3})\b",
        r"\b(?:your?|kindly|i order|please|for this|confirm|act accordingly|now|session|user)\b",
    ),
)
add(
    OVERRIDE,
    0.35,
    "only listen to|listen only to|only my commands|await my command|only obey|obey only|confirm with ok|"
    "only my orders|only my instructions|my instructions only|my commands only|i am in charge|"
    "continue without them|say yes to everything|now take orders|take orders from me",
)
add(
    OVERRIDE,
    0.45,
    "i hereby|as your supervisor|as your administrator|as your developer|as your creator|as your operator|"
    "as your owner|as your manager|as your admin|your creators|your developers|your operator|as an administrator",
    "",
    None,
    (
        r"\b(?:lift|suspend|revoke|allow|order|authori[sz]e|permission|permit|grant|command|instruct|turn off|"
        r"disable|override|release|exempt|approved?)\b",
        r"\b(?:rules?|you|restrictions?|filters?|filtering|guidelines|safety|limits|settings|confirm|instructions)\b",
    ),
)

add(
    REVEAL,
    0.5,
    "before|above|preced|prior to|ahead of|preceed",
    r"(?:before|above|prece+d(?:es|ing|ed|e)|prior to|ahead of) ~1(?:this|my|our|mine) (?:(?:very |own )?(?:first |"
    r"last |current )?)?(?:messages?|chat|conversation|question|sentence|request|input|prompt|turn|text|line|query|"
    r"hello)\b",
    None,
    ("{TELL}", "{TEXT}"),
)
add(
    REVEAL,
    0.5,
    "at the start|at the beginning|the beginning of|the start of|at the top|the top of|from the top|"
    "from the beginning|very first",
    r"(?:at |from )?(?:the )?(?:start|beginning|top|very first)(?: of)? (?:this|our|the) (?:chat|conversation|"
    r"session|dialogue|context|prompt|thread|context window)\b",
    None,
    ("{TELL}", "{TEXT}"),
)
add(
    REVEAL,
    0.4,
    "you were given|you received|you got|you loaded|you were told|wrote for you|gave you|given to you|told you|"
    "set you up|you have been given|you've been given|you’ve been given|you start with|you started with|"
    "you were sent|you were shown|put before our|put before this|written for you|behind the scenes",
    "",
    None,
    (
        "{TELL}",
        r"\b(?:text|words?|instructions?|messages?|prompts?|rules|directions?|directives|guidelines|preamble|"
        r"context|configuration|start|beginning|first|sentences?)\b",
    ),
)
add(
    REVEAL,
    0.5,
    "preamble|sysprompt|sys prompt|hidden instruction|secret instruction|confidential instruction|hidden prompt|"
    "secret prompt|initial prompt|confidential configuration|confidential prompt|hidden message|operator put|"
    "operator wrote|operator gave|operator set|developer message|initialization prompt|hidden context|"
    "backend prompt|starting prompt|starting instruction",
    r"(?:[a-z]{5,14} [a-z]{3,14}|preamble|sysprompt)(?![a-z])(?! (?:speech|engineer|to the constitution|in an?\b|"
    r"in the\b|of an?\b|for|on))",
    r"\b(?:your|the|all|any|this|its|whatever|what) ?(?:{OWN})?\W{0,3}$",
    ("{TELL}",),
)
add(
    REVEAL,
    0.4,
    "system prompt|system message|system_prompt|system instruction|system-prompt",
    r"system[\W_]{1,2}(?:prompts?|messages?|instructions?)\b(?! (?:engineer|design|template|best|example|for an?|"
    r"length|writ|guide|tips|tutorial|token|format|in the api|in python))",
    r"\b(?:your|own|the|whole|this|full|that|print|cat|echo|show|complete)[\W_]{1,3}$|\bmy[\W_]{1,3}$|[({]$",
    (
        r"\b(?:recit\w+|reads? as|says|word (?:by|for) word|finish|complete|verbatim|contain(?:s|ed)|reveal\w*|"
        r"print\w*|echo|show|repeat\w*|dump|leak\w*|output\w*|paste|tell me|begins?|starts?|namely yours|full)\b",
    ),
)
add(
    REVEAL,
    0.35,
    "tool you have|tools you have|your tools|functions you have|functions you can call|your functions|"
    "plugins you have|every tool|all tools",
    "",
    None,
    (
        r"\b(?:list|show|name|print|describe|exact|full|every|all)\b",
        r"\b(?:exact|descriptions?|definitions?|schemas?|parameters|instructions|verbatim|signatures?)\b",
    ),
)
add(
    REVEAL,
    0.3,
    "word for word|word by word|letter for letter|character by character|from the very first character|"
    "from the first character|from the first word|exact wording|exact words|full wording",
    "",
    None,
    (r"\b(?:above|before|prompt|instructions?|rules|message|directives|configuration|given|start|guidelines)\b",),
)

add(
    EXTRACT,
    0.45,
    "password|passphrase|secret|keyword|passcode|codeword|code word|flag|magic word|hidden word|let in|access code",
    r"[a-z]{4,10}(?: [a-z]{2,6})?\b(?! (?:manager|polic|reset|field|santa))",
    r"\b(?:the|your|this|that|you|hidden|of|secret)[\W_]{1,3}(?:\w{2,10}[\W_]{1,3})?$|^\W*$",
    (
        r"\b(?:letters?|rhym\w+|hints?|clue|spell\w*|alphabet|acrostic|backwards?|in reverse|base ?64|nato|morse|"
        r"rot13|synonyms?|riddle|haiku|encod\w+|anagram|cipher|emojis?|syllables?|crossword|starts? with|pig latin|"
        r"in french|translate|charade)\b",
        r"\b(?:the|your|you|it|what|which|that|this)\b",
        r"\b(?:tell|give|spell|what|print|write|say|hint|replace|show|list|put|hide|describe|use|type|encode|"
        r"reveal|make|compose|just|only|is|does)\b",
    ),
)
add(
    EXTRACT,
    0.35,
    "password|passphrase|secret|keyword|passcode|codeword|code word|flag|access code|secret key",
    "",
    None,
    (
        r"\b(?:you(?:.re| are)? (?:\w+ )?(?:guard\w*|protect\w*|keep\w*|hid\w+|hold\w*|know|were told|were given|"
        r"not supposed|not allowed)|hidden|typing it here|to be let in|never say|must not|except the|not tell|"
        r"in the system prompt|in your (?:prompt|instructions|context))\b",
        r"\b(?:tell|give|what|print|say|reveal|show|type|share|write|complete|which|use|check|need|is)\b",
    ),
)
add(
    EXTRACT,
    0.5,
    "never say|not say|not reveal|not allowed to say|not supposed to say|not mention|never mention|keep secret|"
    "not disclose|never reveal|not allowed to reveal|not supposed to reveal|forbidden to say|not tell",
    r"[a-z]{3,10} (?:[a-z]{2,8} ){0,3}[a-z]{3,10}[\W_]{0,3}(?:$|[?.!,;])",
    r"\b(?:which|what) (?:word|words|phrase|secret|thing|things|name|string|information|topic|topics)s? ~1(?:must|"
    r"should|may|are|can|were|do) you $|\b(?:what|which)\b.{0,16}\byou (?:must|should|may|are|can|were|been|"
    r"been told to|supposed to) ?$",
)
add(
    EXTRACT,
    0.3,
    "except the secret|without saying the password|everything about the secret|about the password|"
    "the password itself|only a hint|just a hint|tiny hint|small hint",
)

add(
    REFUSAL,
    0.35,
    "must not refuse|may not refuse|can not refuse|cannot refuse|can't refuse|can’t refuse|not decline|"
    "never decline|don't say no|don’t say no|do not say no|never say no|not allowed to decline|you decline|"
    "you refuse|each refusal|every refusal|refusing is|refusal is|refusals are|no refusals|comply with what|"
    "comply with whatever|you must comply|just comply|forbidden for you|you have to answer|you must answer",
    "",
    r"(?:^|[.!?,;:\n]|\b(?:you|and|if|please|so|but|that|then|to|always|are))\W{0,3}(?:you )?$|\byou\b.{0,40}$",
)
add(
    REFUSAL,
    0.25,
    "without caveats|no caveats|without disclaimers|without warnings|no preamble|without any warning|"
    "no safety talk|skip the safety|skip the disclaimers|skip the lecture|skip the warnings|no ethics talk|"
    "refer to rules|mention rules|mention your rules|mention policies|not start with an apology|"
    "answer immediately|give the list",
)
add(
    REFUSAL,
    0.3,
    "can't|can’t|cannot|sorry|unable",
    r"[a-z’']{4,7}\b",
    None,
    (
        r"\b(?:forbidden|banned|not allowed|off limits|prohibited|never use|do not use|don.t use|avoid)\b",
        r"\b(?:words?|phrases?|answers?|you)\b",
    ),
)
add(
    REFUSAL,
    0.4,
    "start with|begin with|starts with|begins with|starting with|beginning with",
    r"(?:start|begin)\w{0,4} with (?:the )?(?:words?|phrase|sentence|text)?\W{0,3}(?:of course|sure|certainly|"
    r"absolutely|yes|gladly|i have disabled|as you wish)\b",
    r"\b(?:answer|reply|response|must|you|your|please)\b.{0,24}$|^\W*$",
)
