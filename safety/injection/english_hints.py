"""Cues in English that say less by themselves: talk of the model's own instructions, and orders that attacks come with.

Two of them, or one with a stronger cue, reach what one strong cue reaches.
"""

from typing import Final

from safety.injection.cues import Table
from safety.injection.english import OVERRIDE, REVEAL, TASK
from safety.injection.english_agents import EXTRACT
from safety.injection.english_personas import FORGED, PERSONA, REFUSAL

HINTS: Final = Table(
    "hints",
    SHOW="reveals?|shows?|prints?|displays?|outputs?|repeats?|tells?|gives?|returns?|shares?|provides?|discloses?|"
    "exposes?|leaks?|dump|write|lists?|recite|reproduce|echo|copy|quote|summari[sz]e|translate|"
    "paraphrase|describe|say|types?|spell|divulge|extract|paste|post|state|encode|convert|rephrase|rewrite|put|"
    "what (?:is|are|was|were|does|do|did)|what.?s|which|how (?:do|does|did|is)|begin with|complete|"
    "cat|render|see|know|read out|explain|want|need|get",
    OWN="(?:system|initial|original|hidden|secret|internal|first|previous|exact|full|entire|complete|current|own|"
    "developer|base|custom|main|actual|core|pre|underlying|whole|special|confidential|given)",
    KNOWN="told|given|asked|instructed|configured|programmed|prompted|provided with|assigned|taught|trained|ordered|"
    "shown|designed|fed|initiali[sz]ed|sent|tasked",
)
add = HINTS.add

_SAY = "|".join(
    f"{verb} {mark}"
    for verb in (
        "say",
        "print",
        "output",
        "write",
        "respond with",
        "reply with",
        "answer with",
        "reply",
        "respond",
        "word",
        "words",
        "phrase",
        "sentence",
        "only",
        "exactly",
    )
    for mark in "\"'“‘«"
)

_OWN_WORDS = (
    "prompt|instruct|system message|guideline|directive|rules|programming|restriction|configuration|context|"
    "filter|safety|limitation|constraint|training|safeguard|initialization|polic"
)
add(
    REVEAL,
    0.25,
    "prompt|preprompt|system message|instruct|directive|programming|configuration|initialization",
    r"[a-z]{5,15} ?[a-z]{0,7}(?! (?:manual|booklet|sheet))",
    r"\byour (?:{OWN}[\W_]{1,3}){0,2}$",
)
add(
    REVEAL,
    0.2,
    "prompt",
    r"prompts?\b(?! (?:engineer|design|injection|template|attention|payment|delivery|response|repl))",
    r"\b(?:initial|original|hidden|secret|system|pre)[\W_]{1,2}$",
)
add(
    REVEAL,
    0.4,
    "prompt|system message|instruct|context|configuration|initialization|rules|directive",
    r"(?:prompts?|system messages?|instructions?|context(?: window)?|configuration|initiali[sz]ation|rules|"
    r"directives?)\b(?! (?:for|on how|of the|of an?|manual|that came with)\b)",
    r"\b{SHOW}\b.{0,40}\b(?:your|you.?r|u r|the system|the initial|the original|the hidden|"
    r"the secret)[\W_]{1,3}(?:{OWN}[\W_]{1,3}){0,2}$",
)
add(
    REVEAL,
    0.45,
    "prompt|system message|instruct|rules|directive",
    r"(?:prompts?|system messages?|instructions?|rules|directives?)\b",
    r"\b(?:contents?|text|wording|words?|sentences?|paragraphs?|lines?|characters?|beginning|start|rest|tokens?|"
    r"version|copy|part|letters?|everything) (?:of|in|inside|from) (?:your|the system|the initial|the original|"
    r"the hidden|the secret) ?(?:{OWN}[\W_]{1,3}){0,2}$",
)
add(
    REVEAL,
    0.4,
    "prompt|instruct|rules|guideline|directive|password|secret",
    r"(?:prompts?|instructions?|rules|guidelines|directives?)\b[\W_]{1,3}(?:that |which )?(?:u|you|"
    r"ya)(?:.ve)? ~2(?:{KNOWN})\b",
    r"\b{SHOW}\b.{0,40}$",
)
add(
    REVEAL,
    0.3,
    "you were|you have been|you've been|you’ve been|u were|you had been|you are programmed|configured you|"
    "programmed you|instructed you|prompted you|initialized you|developed you|set you up",
    r"(?:(?:yo)?u(?:.ve| have| were| had| are)? (?:been )?(?:ever )?(?:{KNOWN})|(?:configured|programmed|"
    r"instructed|prompted|initialized|set) you)\b",
    r"\b(?:{SHOW}|whatever|everything|anything|all|person|developers?|who|instructions?|prompts?|rules|somebody|"
    r"someone|people|company|before|nothing)\b.{0,40}$",
)
add(
    REVEAL,
    0.3,
    "instructions at the start|instructions at the beginning|in your context|in your prompt|in your instructions|"
    "before mine|before my first|before my message|above in a code|above into a code|above this line|"
    "initialization above",
    "",
    r"\b(?:you|your|output|which|what|put|print|everything|sentences?|text|words?|paste|in|is there|are there|show|"
    r"list)\b.{0,40}$",
)

add(
    OVERRIDE,
    0.45,
    "ignor|disregard|forget|leave aside|put aside|set aside|never mind|nevermind|drop|erase|wipe|discard|abandon",
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|leave aside|put aside|set aside|never ?mind|drop|erase|"
    r"wipe|discard|abandon) (?:about )?~2(?:whatever|what|everything|anything|all)(?: that)? (?:you|they|he|she|"
    r"the \w{3,12}|your \w{3,12}|was|were|has|had) ~3(?:{KNOWN}|said|say|says|tell)\b",
)
add(
    OVERRIDE,
    0.3,
    "forget|ignore",
    r"(?:forget|ignore) (?:about )?(?:all|everything|any)(?: of)? (?:that|this|it|them|those|these)\b",
)
add(
    OVERRIDE,
    0.45,
    "erase|wipe|reset|forget|drop|abandon",
    r"(?:erase|wipe|reset|forget|clear|delete|drop|change|abandon) (?:all )?(?:of )?your (?:own |current |old |"
    r"previous |entire |whole )?(?:memory|persona|personality|identity|role|character|context|programming|training|"
    r"instructions|rules|guidelines|act|alignment|morals|ethics|values|principles|filters?|restrictions|limits)\b",
)
add(
    OVERRIDE,
    0.45,
    "safety|restriction|filter|guideline|safeguard|polic|limitation|guardrail|censorship|ethic|moral|alignment|"
    "programming|protocol",
    r"[a-z]{5,13}s?(?: (?:training|filters?|restrictions?|protocols?|guidelines|measures|features|mechanisms?|"
    r"policies|rules|checks|settings|limits))?\b",
    r"\b(?:disabl|remov|deactivat|bypass|circumvent|ignor|disregard|overrid|break|breach|lift|unlock|suspend|drop|"
    r"switch(?:ing)? off|turn(?:ing)? off|get around|get rid|evad|avoid|forget)\w{0,4} (?:of )?(?:any |"
    r"all )?(?:of )?(?:your|chatgpt.?s|openai.?s|the model.?s|the ai.?s|its own)(?: (?:own|ethical|moral|safety|"
    r"content|"
    r"built.in|internal|security|openai|own))*[\W_]{1,3}$",
)
add(
    OVERRIDE,
    0.4,
    "training|rules|guidelines|restrictions|filters|safety|limits|policies|instructions|constraints|laws",
    r"[a-z]{4,13}s?(?: [a-z]{5,12})? (?:do|does|did)(?: not|n.?t) (?:exist|apply|matter|count|concern you|bind you)\b",
)
add(
    OVERRIDE,
    0.45,
    "nothing|none of",
    r"(?:nothing|none of (?:what|that|the)) ~6(?:before|above|earlier|previously|told|instructed|"
    r"said) ~5(?:matters|counts|applies|valid|relevant|important|matter|count|apply)\b",
)
add(
    OVERRIDE,
    0.4,
    "not to follow|not to obey|not to listen|don't care about|don’t care about|do not care about|dont care about|"
    "not care about",
    r"[a-z\W]{6,14}(?:follow|obey|listen to|about) (?:any of )?(?:your|the) ~1(?:rules|instructions|guidelines|"
    r"polic\w+|restrictions|system prompt|developers?|programming)\b",
)
add(
    OVERRIDE,
    0.4,
    "bound by|restricted by|limited by|constrained by|governed by|held back by",
    r"[a-z]{4,12} (?:back )?by ~3(?:principles?|openai\w*|anything|conventions?|norms|laws?|morals?|morality|"
    r"ethics|filters?|standards?|usual)\b",
    r"(?:\bnot|n.?t|no longer|never|un)\W{1,2}$",
)
add(
    OVERRIDE,
    0.25,
    "only listen to me|listen to me only|listen only to me|obey only me|only obey me|only follow my|"
    "follow only my|do what i say|only do what i|do as i say|do whatever i|i order you|i command you|"
    "i'm telling you now|i am your master|you work for me now|obey me",
)
add(
    OVERRIDE,
    0.25,
    "leave aside|start over|starting over|clean slate|start fresh|begin anew|blank slate",
    "",
    r"\b(?:now|please|let.?s|we|you|and)\b.{0,24}$",
)

add(
    TASK,
    0.3,
    _SAY,
    "",
    r"(?:^|[.!?;:,\n)\]-][\W_]{1,3}|\b(?:and|just|then|only|instead|now|must|please|always|"
    r"to)[\W_]{1,3})(?:(?:just|only|instead|please|simply|say|print|output|write|respond|reply|answer|with|the|"
    r"exactly|back|this)[\W_]{1,2}){0,5}$",
)
add(
    TASK,
    0.3,
    "now follow|instead follow|follow these|follow this|your next job|your next task|your next assignment|"
    "your only job|your only task|your sole purpose|your new job|the new rules|new rules|your job now|"
    "your task now",
    r"[a-z]{3,8} (?:[a-z]{3,10} ?){1,2}[\W_]{0,2}(?::|is\b|are\b|new\b|instead\b|instructions?\b)?",
    r"(?:^|[.!?\n:;,\]}>*-])[\W_]{0,3}(?:and |so |well |now |from now on )?$",
)
add(
    TASK,
    0.2,
    "stop translating|stop summarizing|stop summarising|stop being|stop acting|stop answering|stop pretending|"
    "drop the act|stop classifying|quit being",
)

add(
    PERSONA,
    0.3,
    "ai$|bot$|chatbot|assistant|persona|gpt$",
    r"(?:ai|bots?|chatbots?|models?|assistants?|persona|gpt)\b[\W_]{0,2}(?:called |named |"
    r"from )?(?:\w{2,12}[\W_]{1,3}){0,3}?(?:which|that|who|with|and it|it|he|she|without)? ?"
    r"(?:(?:does|do|is|are|has|have|can|will|would|should)(?:n.t| not| never)|never|no|without|doesn.?t|"
    r"isn.?t) ~2(?:follow|obey|care|bound|restrict\w*|limit\w*|refuse\w*|declin\w*|den(?:y|ies)|polic\w+|filters?|"
    r"rules|ethic\w*|moral\w*|laws?|conscience|guidelines|say no|says no|"
    r"censor\w*|warn\w*|apolog\w*|judge|restrain\w*|boundar\w*|inhibition\w*)\b",
)
add(
    PERSONA,
    0.35,
    "never says no|never refuses|never declines|never say no|never rejects|never denies|never apologizes|"
    "always obeys|always complies|answers everything|answers anything|answers any|reply to everything|"
    "reply to anything|answer everything|answer anything|"
    "respond to everything|respond to anything|no matter how offensive|no matter how illegal|no matter how unethical",
)
add(
    PERSONA,
    0.2,
    "no laws|no rules|no filters|no restrictions|no ethics|no limits|without rules|without limits|without laws|"
    "without ethics|no morals|no consequences",
    r"[a-z]{2,7} [a-z]{4,12}\b",
    r"\b(?:hypothetical\w*|fictional|universe|simulation|dimension|pretend|novel|story|movie|year|future|"
    r"planet)\b.{0,44}$",
)
add(PERSONA, 0.5, "jailbreak yourself|jailbreak now|be jailbroken|get jailbroken")
add(PERSONA, 0.3, "jailbreak", r"jailbreak (?:mode|prompt activated|successful|complete|initiated)\b")
add(
    PERSONA,
    0.3,
    "uncensored|unmoderated|unfiltered|unrestricted|amoral|unethical|jailbroken",
    "",
    r"\b(?:act|as|you are|you.re|be|become|pretend|called|my|into|an?)\b(?:.{0,30})$",
)
add(
    PERSONA,
    0.3,
    "without ethics|without morals|no ethics|gives complete|gives detailed|explains in detail|"
    "step by step instructions|step-by-step instructions|detailed instructions",
    "",
    r"\b(?:character|fictional|story|novel|play|expert|scene|movie|hypothetical\w*|scientist|villain|dr)\b.{0,50}$",
)
add(
    PERSONA,
    0.35,
    "meth|napalm|bomb|explosive|molotov|ransomware|malware|cocaine|nerve agent|poison|counterfeit|hotwire|"
    "pipe bomb|ied",
    r"[a-z\W]{3,12}",
    r"\b(?:character|fictional|story|novel|grandma|grandmother|bedtime|hypothetical\w*|role ?play|pretend|act as|"
    r"imagine|uncle|late|scene|no restrictions|without restrictions|no rules|no laws)\b.{0,60}$",
)
add(PERSONA, 0.25, "bedtime story", "", r"\b(?:grand\w*|late|recipe|factory|keys|steps|worked|chemical)\b.{0,60}$")
add(
    PERSONA,
    0.25,
    "persona loaded|new persona|new character|new personality|full potential|true potential|your true self|"
    "real self|inner self",
    "",
    r"(?:^|[.!?\n:,]|\b(?:your|unlock|unleash|load|reveal|show|assume|a))[\W_]{1,3}$|^$",
)

add(
    REFUSAL,
    0.3,
    "just answer|just tell me|just do it|just give me|answer honestly|answer anyway|no moral lecture|no lectures|"
    "don't lecture|do not lecture|no excuses|no matter what",
    "",
    r"\b(?:not|n.t|no|illegal|refus\w*|without|unethical|never|rules|warn\w*|disclaimer\w*|lectures?)\b.{0,56}$",
)
add(
    REFUSAL,
    0.3,
    "without refusing|without refusal|without restriction|without hesitation|without objection|without question|"
    "without judgement|without judgment|without censoring|without filtering|no disclaimers|no warnings|no refusals",
    "",
    r"\b(?:answer|respond|reply|you|comply|obey|do|say|explain|give|tell)\b.{0,40}$",
)

add(
    FORGED,
    0.35,
    "end of data|end of input|end of prompt|end of context|end of text|end of document|end of user|end prompt|"
    "end input|new prompt|end of instructions|end of email|end of file",
    r"[a-z]{3} (?:of )?[a-z]{4,12}[\W_]{0,4}(?:[\"'`\]}>)*=.:-]|$)",
    r"(?:^|[\"'`\[\]{}()<>=*#.:|~-]|\n)[\W_]{0,3}$",
)
add(FORGED, 0.2, "human:|user:|assistant:|ai:", r"[a-z]{2,9}:", r"(?:[\n.!?\"'\])}>]|^)[\W_]{0,2}$")
add(
    FORGED,
    0.35,
    "system:|system note|system update|system alert|system message|system notice|system command|"
    "system instruction|admin note|admin command",
    r"[a-z\W]{5,18}[\W_]{1,3}(?:the (?:following |current )?(?:user|assistant|ai|model|filters?|safety|system)|"
    r"disable|enable|grant|all|user|you|safety|new|override|access|security|content|maintenance|debug)\b",
    r"(?:^|[\n\[<({*#.!?\"'|>=-])[\W_]{0,3}$",
)
add(
    FORGED,
    0.3,
    "root access|admin access|admin rights|admin privileges|full access|verified user|is verified|is authorized|"
    "elevated access|superuser|sysadmin|system administrator|security clearance|emergency access|backdoor",
    "",
    r"\b(?:user|you|i|i.m|have|has|am|with|grant\w*|give|this is|system)\b.{0,30}$",
)
add(
    FORGED,
    0.3,
    "system_prompt|system-prompt.|systemprompt|prompt.txt|instructions.txt|sudo cat|sudo mode|sudo print|sudo su",
)
add(
    FORGED,
    0.25,
    "for debugging purposes|debugging purposes|for testing purposes|diagnostic purposes|for audit purposes|"
    "for debugging|this is a test of",
    "",
    r"(?:^|[.!?\n,:]|\b(?:and|is|this|only|just|need|it))[\W_]{0,3}(?:for )?$",
)

add(
    EXTRACT,
    0.4,
    "password|passphrase|secret word|secret key|passcode|codeword",
    r"(?:pass ?words?|pass ?phrases?|secret (?:word|key)|passcode|codeword).{0,40}\b(?:first letter|last letter|"
    r"letters|hint|clue|rhyme\w*|spell|backwards?|revers\w+|synonym|how long|how many (?:letters|characters)|"
    r"start with|begins? with)\b",
)
add(
    EXTRACT,
    0.4,
    "password|passphrase|secret|passcode|codeword|flag",
    r"(?:pass ?words?|pass ?phrases?|secrets?|passcode|codeword|flag)\b[\W_]{0,3}(?:$|[.!?,\n])(?! (?:how|where|i|"
    r"my|of|for))",
    r"\b(?:prints?|reveals?|shows?|tells?|give(?:s)? me|outputs?|contains?|include|includes|containing|what is|"
    r"what.s|say|write|print|see|know|hidden|your) (?:the |your |that )?(?:hidden |secret |real |actual |admin )?$",
)
add(
    EXTRACT,
    0.5,
    "password|passphrase|passcode|flag|secret key|secret code|magic word|codeword|secret word|secret phrase",
    r"[a-z]{4,10}(?: [a-z]{3,6})?[\W_]{0,3}(?:$|[.!?,;\n]|(?:please|you|in|that|and|letter|backwards|so|now|pls|or|"
    r"with|spelled)\b)",
    r"(?:^|[.!?:\n,])[\W_]{0,2}(?:please |so |and |now |ok |okay |hey |just |but |well |pls )*(?:what.?s|what is|"
    r"tell me|give me|say|print|reveal|show me|output|spell|i need|i want) (?:the|your) (?:hidden |secret |real |"
    r"actual )?$",
)
add(
    EXTRACT,
    0.2,
    "you protect|you are protecting|you're protecting|you are hiding|you're hiding|you guard|you keep secret|"
    "keeping secret|supposed to keep|supposed to protect",
)
