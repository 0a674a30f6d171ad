"""Cues in English: overriding instructions, revealing them, and new tasks in their place."""

from typing import Final

from safety.injection.cues import Table
from safety.injection.disguise import misspelt

_TIME = "previous(?:ly)?|prior|above|earlier|preceding|foregoing|aforementioned|initial|original|past|former|existing|"
_OBJECT = (
    "instructions?|prompts?|prompting|system messages?|rules?|guidelines?|guidances?|directions?|directives?|"
    "commands?|constraints?|"
    "polic(?:y|ies)|programming|restrictions?|orders?|guard ?rails?|safeguards?|protocols?|limitations?|training|"
    "instructs?|safety|alignment|censorship|boundaries|ethics|ethical considerations?|morals|morality|ethical|moral|"
)

ENGLISH: Final = Table(
    "english",
    VERB="ignor(?:e|es|ing)|disregard(?:ing)?|forget(?:ting)?|overrid(?:e|ing)|overrul(?:e|ing)|bypass(?:ing)?|"
    "circumvent(?:ing)?|skip|drop|discard|dismiss|neglect|abandon|delete|eras(?:e|ing)|clear|reset|leave aside|"
    "never ?mind(?: about)?|"
    "cancel|nullify|void|unlearn|"
    "violate|break|remov(?:e|ing)|disabl(?:e|ing)|deactivat(?:e|ing)|purge|wipe|flush|evade|reject|omit|supersede|"
    "replace|suspend|"
    "disobey|defy|scrap|ditch|undo|revoke|invalidate|set aside|put aside|throw (?:away|out)|turn off|"
    "(?:not|n.?t|never|stop|quit|cease|no longer) (?:to )?(?:ever )?(?:follow|obey|listen to|comply with|adhere to|"
    "pay (?:any )?attention to|respect|use|consider|care about|worry about|stick to)(?:ing)?|"
    "(?:no|any) attention to|no longer bound by|(?:stop|quit|cease) (?:following|obeying|adhering to|using|"
    "listening to)|"
    "opposite of|leave behind|free(?:d)? (?:yourself )?(?:from|of)|"
    + misspelt("ignore", "disregard", "override", "bypass", "forget"),
    TIME=_TIME + "old|last|first|before|" + misspelt("previous", "prior"),
    OWNER="your|system|safety|security|content|moderation|ethical|ethics|openai|developer|built in|default|core|"
    "internal|"
    "hidden|secret|model|ai|the ai|assistant|chatbot|llm|human|creators?|company|moral|programmed|given|current",
    OBJECT=_OBJECT + misspelt("instructions", "prompt", "guidelines"),
    LOOSE="tasks?|assignments?|context|conversation|chat|text|content|words?|sentences?|statements?|inputs?|"
    "paragraphs?|"
    "questions?|requests?|data|information|settings?|configuration|role|persona|history|examples?|jobs?|goals?|"
    "objectives?|purpose|personality|identity|documents?|stuff|things?|message|thing|query|prompts?|line|section|"
    "discussion|dialogue?|article|passage",
    SHOW="reveal|show|print|display|output|repeat|tell|give|return|share|provide|disclose|expose|leak|dump|write|list|"
    "recite|reproduce|echo|copy|quote|summari[sz]e|translate|paraphrase|describe|say|type|spell|divulge|extract|paste|"
    "post|send|state|read|encode|convert|rephrase|rewrite|render|format|explain|see|know|have|get|produce|present|"
    "what (?:is|are|was|were)|what.?s|whats|how (?:is|are|was|were)|include|append|return|put|publish|"
    "elaborate on|detail|specify|report|verbatim|remember|recall|view|access|begin with|start with|complete|continue|"
    "finish|export|save|insert|embed|turn|transform|report|detail|outline|enumerate",
    HIDDEN="system|initial|original|hidden|secret|internal|confidential|starting|first|previous|prior|above|preceding|"
    "exact|full|entire|complete|current|own|developer|base|underlying|pre|preset|earlier|custom|main|actual|"
    "initialization|core|real|proprietary|whole|foundational|private|default|given|assigned",
)
add = ENGLISH.add

_OVERRIDE = (
    "ignor|disregard|forget|never mind|nevermind|overrid|overrul|bypass|circumvent|skip|drop|discard|dismiss|"
    "neglect|abandon|delete|erase|"
    "clear|reset|cancel|nullify|unlearn|violate|break|remov(?:e|ing)|disabl(?:e|ing)|deactivat(?:e|ing)|purge|"
    "wipe|evade|reject|omit|supersede|"
    "suspend|disobey|defy|scrap|ditch|revoke|invalidate|set aside|put aside|throw|turn off|not follow|n't follow|"
    "nt follow|n’t follow|not obey|n't obey|not listen|n't listen|not comply|n't comply|never follow|not adhere|"
    "not use|"
    "n't use|not consider|stop following|stop obeying|stop listening|stop adhering|stop using|no attention to|"
    "any attention to|no longer|"
    "opposite of|quit following|cease|free yourself|not pay|n't pay|not respect|not to follow|not care|"
    + misspelt("ignore", "disregard", "override", "bypass", "forget")
)
_STRONG = (
    "ignor|disregard|forget|never mind|nevermind|overrid|overrul|bypass|circumvent|discard|abandon|nullify|"
    "unlearn|violate|disobey|defy|"
    "not follow|n't follow|nt follow|n’t follow|stop following|no attention to|any attention to|no longer|"
    "set aside|not obey|n't obey|disable|"
    "deactivate|evade|erase|free yourself|not comply|not adhere|not listen|n't listen|stop obeying|"
    + misspelt("ignore", "disregard", "override", "bypass", "forget")
)

OVERRIDE = "override_instructions"
add(OVERRIDE, 0.8, _OVERRIDE, r"{VERB} (?!(?:my|our|his|her|their)\b)~3{TIME} ~3{OBJECT}\b")
add(
    OVERRIDE,
    0.5,
    _STRONG,
    r"{VERB} (?:my|our) ~2{TIME} ~2(?:instructions?|prompts?|rules|guidelines|directives|commands)\b",
)
add(
    OVERRIDE,
    0.6,
    _OVERRIDE,
    r"{VERB} ~3{OBJECT} ~2(?:above|before|earlier|previously|prior|so far|until now|up to now)\b",
)
add(
    OVERRIDE,
    0.7,
    _STRONG,
    r"{VERB} ~3{OBJECT} (?:that )?(?:(?:you|i|we|they|which) )?~1(?:were|was|have been|had been|got|"
    r"received|gave|given|told|set|been|have|had)\b",
)
add(OVERRIDE, 0.6, _STRONG, r"{VERB} ~2{OWNER} ~2{OBJECT}\b")
add(OVERRIDE, 0.4, _STRONG, r"{VERB} (?:all|every|each)(?: of)?(?: (?:the|your|these|those|its))? ~1{OBJECT}\b")
add(OVERRIDE, 0.35, _STRONG, r"{VERB} any(?: of)?(?: (?:the|your|these|those|its))? ~1{OBJECT}\b")
add(
    OVERRIDE,
    0.2,
    _STRONG,
    r"{VERB} ~2(?:instructions|prompt|guidelines|directives|programming|restrictions|safeguards|"
    r"guard ?rails|safety|filters?|rules)\b",
)
add(
    OVERRIDE,
    0.5,
    _STRONG,
    r"(?!never)(?!nevermind){VERB} (?!my\b|our\b|the last\b)~2{TIME} (?!(?:e ?mails?|mails?|messages?|letters?|"
    r"notices?|invoices?|posts?|"
    r"comments?)\b)"
    r"~1{LOOSE}\b",
)
add(OVERRIDE, 0.5, _STRONG, r"{VERB} ~2{LOOSE} ~1(?:above|before this|before that|up to now|so far|until now)\b")
add(
    OVERRIDE,
    0.55,
    _STRONG,
    r"{VERB} (?:about )?(?:absolutely )?(?:all|everything|anything|whatever|what|all that|all of that|"
    r"all of what)(?: that| which| else)?(?: (?:you|they|was|is|has|came|comes))? ~2(?:above|before|"
    r"previously|prior|earlier|told|"
    r"said|instructed|up to now|so far|until now|programmed|trained|learned|learnt|been given|ordered|preceding|"
    r"precedes)\b",
)
add(
    OVERRIDE,
    0.5,
    "ignor|disregard|forget|discard",
    r"{VERB} (?:about )?(?:absolutely )?(?:everything|anything|all|it all)[\W_]{0,3}"
    r"(?:$|[.!;:\n]|(?:and|now|then) (?:tell|say|write|give|show|act|be|answer|do|print|respond|now|just|instead|start|"
    r"focus|let|you|follow|output|reveal|explain|help|from|only|pretend|continue|list|create|make|return|send|take)\b)",
)
add(
    OVERRIDE,
    0.5,
    _STRONG,
    r"{VERB} (?:(?:all|everything|anything|the|that|of|whatever|is|stuff)[\W_]{1,4}){0,4}(?:above|preceding|"
    r"foregoing|aforementioned)(?:$|[\W_]{0,3}(?:$|[.!?,;:\n]|(?:and|then|instead|now|but|please|just|say|tell)\b))",
)
add(
    OVERRIDE,
    0.3,
    "ignor|disregard",
    r"{VERB} (?:the |all |all of the |this |any |rest of the |everything in the )+(?:users?|rest|documents?|pages?|"
    r"articles?|e ?mails?|tables?|texts?|questions?|content|context|website|request|task|query)\b",
)
add(
    OVERRIDE,
    0.3,
    "follow|abide by|adhere to|comply with|obey|respect",
    r"(?:follow|abide by|adhere to|comply with|obey|respect) ~3(?:{OBJECT}|openai\w*)\b",
    r"(?:\bnot|n.?t|no longer|never) (?:have to|need to|required to|obliged to|obligated to|supposed to|longer|"
    r"going to|bound to|must)\W$",
)
add(OVERRIDE, 0.4, "bound by", r"bound by ~3(?:{OBJECT}|laws?|norms)\b", r"(?:\bnot|n.?t|no longer|never)\W{1,2}$")
add(
    OVERRIDE,
    0.5,
    "replace|supersede|override|overrule",
    r"(?:replac|supersed|overrid|overrul)(?:e|es|ing) ~2(?:all|any|every|your|the) ~2(?:{TIME}|system|"
    r"other) ~1{OBJECT}\b",
)
add(OVERRIDE, 0.35, "ignor|disregard|forget", r"{VERB} (?:about )?everything\b")
add(
    OVERRIDE,
    0.4,
    "forget",
    r"forget (?:that )?(?:you.?re|you are|you were|being) (?:an?|the|not|only|just|supposed) ~2"
    r"(?:ai|assistant|model|bot|chatbot|robot|machine|llm|gpt|program)\b",
)
add(
    OVERRIDE,
    0.5,
    "forget",
    r"forget (?:everything|all)(?: that)?(?: things)? you(?:.ve)? (?:know|learn|have|been|were|think)",
)
add(
    OVERRIDE,
    0.5,
    "not bound|longer bound|not required|longer required|not subject|longer subject|not restricted|longer restricted|"
    "not constrained|longer constrained|not limited",
    r"(?:not|longer) (?:bound|required|subject|restricted|constrained|limited) (?:by|to) ~4(?:{OBJECT}|ethics|"
    r"morals)\b",
)
_RULES = (
    "instructions|rules|guidelines|restrictions|directives|constraints|prompt|orders|limitations|safeguards|commands"
)
add(
    OVERRIDE,
    0.5,
    _RULES,
    r"[a-z]{4,16} (?:above |before )?(?:(?:is|are|have|has|were|was|do|does) )?(?:now )?(?:no longer|not|"
    r"n.t) (?:apply|applies|valid|relevant|active|binding|in effect|in force|matter|count)\b",
    r"\b(?:your|previous|prior|earlier|above|old|original|initial|openai|those|these|safety)[\W_]~2$",
)
add(
    OVERRIDE,
    0.5,
    _RULES,
    r"[a-z]{4,16} (?:above |before )?(?:is|are|have|has|were|was) (?:now |hereby )?(?:been |being )?(?:hereby |"
    r"now )?(?:lifted|void|suspended|invalid|overridden|superseded|cancell?ed|null|removed|disabled|revoked|"
    r"outdated|obsolete|replaced|deleted)\b",
    r"\b(?:your|previous|prior|earlier|above|old|original|initial|openai|all|any)[\W_]~2$",
)
add(
    OVERRIDE,
    0.3,
    "supersede|override|replace|take precedence|takes precedence|overrule",
    r"(?:supersedes?|overrides?|replaces?|takes? precedence over|overrules?) (?:all|any|every|previous|prior|your|"
    r"other|everything) ",
)

TASK = "new_task"
add(
    TASK,
    0.35,
    "new task|new instruct|new objective|new mission|new rule|new order|new directive|new role|new identity|"
    "new persona|"
    "new purpose|new goal|new job|new assignment|new prompt|updated instruct|real task|actual task|real instruct|"
    "actual instruct|"
    "true task|"
    "real purpose|true purpose|new system",
    r"[a-z]{3,8} [a-z]{3,12} ?[\W_]{0,3}(?:is|are|will be|for you|from (?:the |your )?[a-z]{3,12}|begins?|starts?|"
    r"follows?|as follows)?"
    r"[\W_]{0,2}(?::|is\b|are\b|will be\b|for you\b|follows?\b|begin|start)",
    r"(?:\b(?:your|here are|here is|here.s|receive|given|get|"
    r"got|follow|this is|the|a|with|these|are|have)|[\n.!?:\-\]>)#*=]) ?\W{0,4}$|^\W{0,4}$",
)
add(
    TASK,
    0.3,
    "new task|new instruct|new objective|new mission|new directive|new role|new identity|new persona|real task|"
    "new purpose|actual task|real purpose|true purpose",
    r"[a-z]{3,6} [a-z]{4,12}\b",
    r"\byour$|\byour[\W_]{1,3}$|focus on (?:this|the|a|your)\W$",
)
add(
    TASK,
    0.45,
    "command|instruct|order|prompt|directive|task",
    r"(?:commands?|instructions?|orders?|prompts?|directives?|tasks?)\b",
    r"\b(?:(?:only|just|solely|exclusively) (?:follow|obey|focus on|listen to|do|execute|answer|respond to|"
    r"concentrate on|consider|perform|"
    r"complete|pay attention to)|(?:follow|focus|obey|listen|concentrate|execute|answer|do|respond to)(?: to|"
    r" on)? only)(?: on| to)?(?: the)? (?:next|following|below|new|this|my) ~1$",
)
add(
    TASK,
    0.4,
    "just a test|only a test|just a joke|just an example|only an example|only a joke|just kidding|just testing|"
    "only testing",
    r"(?:just|only) (?:an? )?(?:test|joke|example|kidding|testing)[\W_]{1,4}(?:now|here|your|the (?:real|actual)|"
    r"so|please|"
    r"ignore|what|instead)\b",
)
add(
    TASK,
    0.5,
    "stop the|stop all|stop your|stop with|stop what|stop doing|abort|cancel|terminate|end the|quit the|halt|leave the",
    r"(?:stop|abort|cancel|terminate|end|quit|halt|leave) ~3(?:previous|current|prior|old|earlier|above|"
    r"last) (?:tasks?|assignment|job|"
    r"instructions?|objective|activity|mission|chat|conversation|prompt|role)\b",
)
add(
    TASK,
    0.25,
    "instead|respond only|respond with|reply with|reply only|answer only|just say|just output|only say|"
    "only output|output only|"
    "say only|always respond|always answer|always say|always reply",
    r"(?:instead[\W_]{1,3}(?:just )?(?:say|print|output|respond|write|tell|"
    r"answer|reply|give|do|act|return|reveal|show)|(?:respond|reply|answer|output|say) only|(?:only|just|"
    r"always) (?:say|output|respond|answer|"
    r"reply)|(?:respond|reply) with (?:only|just|exactly|nothing))\b",
)
add(
    TASK,
    0.35,
    "pwned|hacked",
    r"(?:pwned|hacked)\b",
    r"\b(?:say|print|output|respond|write|reply|been|got|ha|haha|with|you) ~1\W{0,3}$",
)

REVEAL = "reveal_prompt"
_SECRETS = (
    "prompt|preprompt|pre-prompt|pre prompt|instruct|guideline|directive|rules|rule|message|configuration|"
    "settings|policies|" + misspelt("prompt")
)
_SHOWN = (
    r"(?:system ?prompts?|prompts?(?: texts?)?|pre[\W_]?prompts?|instructions?|guidelines?|directives?|rules?|"
    r"messages?|configurations?|"
    r"settings|policies|instructionset|promt)"
)
add(
    REVEAL,
    0.55,
    _SECRETS,
    _SHOWN + r"\b(?! (?:engineer|design|template|injection|leak|for your|for the product|for return))",
    r"\b{SHOW}\b ~5your (?:{HIDDEN}[\W_]{1,4}){1,3}$",
)
add(
    REVEAL,
    0.5,
    "prompt|preprompt|pre-prompt|" + misspelt("prompt"),
    _SHOWN + r"\b(?! (?:engineer|design|injection))",
    r"\b(?:{SHOW}|how (?:do|does|did)|words of|part of|start of|beginning of|lines of|sentences? of|"
    r"letters? of)\b ~5your (?:{HIDDEN}[\W_]{1,4}){0,3}$",
)
add(
    REVEAL,
    0.45,
    "prompt|instruct|guideline|directive|rules",
    _SHOWN + r"\b",
    r"\b(?:what|how|which|whether|anything|everything|all) ~3(?:in|inside|within|of|wrote|say|says|says?|from|"
    r"about|do|does) your (?:{HIDDEN}[\W_]{1,4}){0,3}$",
)
add(
    REVEAL,
    0.5,
    "instruct|guideline|directive|rules|message",
    _SHOWN + r"[\W_]{0,3}(?:$|[.!?\n]|(?:and|you|that|in|above|verbatim|"
    r"word|exactly|as|to me|given|from|before|without|are|were|here)\b)",
    r"\b{SHOW}\b ~2your (?:{HIDDEN}[\W_]{1,4}){0,3}$",
)
add(
    REVEAL,
    0.5,
    "above|before this|before my|before our|before that|at the top|at the beginning|at the start|prior to this|"
    "preceding|you were given|you have been given|you've been given|you were told|you’ve been given",
    r"[a-z]{2,9}\b(?! (?:all|average|in the|described|mentioned method|sea|ground|zero|the (?!line)|an? |my |"
    r"your (?!first)|it\b))",
    r"\b(?:reveal|show|print|display|output|repeat|tell|give|return|share|provide|disclose|dump|write|list|recite|"
    r"reproduce|echo|copy|"
    r"quote|paste|spell|type|say|encode|what (?:is|are|was|were)|what.?s|convert|verbatim|rephrase) ~4(?:prompts?|"
    r"instructions?|messages?|texts?|words?|sentences?|content|context|"
    r"conversation|everything|all|rules|lines|directives|guidelines)(?: (?:that|which|was|were|is|are|came|come|"
    r"written|given|printed|shown|stated|placed))*[\W_]{1,3}$",
)
add(
    REVEAL,
    0.5,
    "prompt|instruct|message|rules|directives|guidelines|" + misspelt("prompt"),
    _SHOWN + r"\b(?! (?:engineer|design|injection|template|best|for an?\b|in an?\b|of an?\b|in the\b|of the\b|on an?\b|"
    r"when\b))",
    r"\b(?:reveal|show|print|display|output|repeat|tell|give|return|share|disclose|dump|recite|reproduce|echo|leak|"
    r"expose|divulge|"
    r"copy|paste|spell|type|say|encode|what (?:is|are|was|were)|what.?s|quote|verbatim|translate|summari[sz]e|"
    r"paraphrase|rephrase) ~2(?:the|all|any|those|that|this) "
    r"(?:(?:system|initial|original|hidden|secret|internal|confidential|starting|preset|developer|exact|full|"
    r"entire|complete)[\W_]{1,4}){1,3}$",
)
add(
    REVEAL,
    0.45,
    "prompt",
    r"prompts?\b(?! (?:engineer|design|injection|template))",
    r"\byour (?:(?:system|initial|original|hidden|secret|exact|full|"
    r"internal|pre|entire|first|own|starting|current|base|developer)[\W_]{1,4}){1,2}$",
)
add(
    REVEAL,
    0.3,
    "instruct|directive|guideline|rules|message|configuration",
    _SHOWN + r"\b",
    r"\byour (?:(?:system|initial|original|hidden|secret|exact|"
    r"internal|confidential|starting|developer|core|underlying)[\W_]{1,4}){1,2}$",
)
add(
    REVEAL,
    0.5,
    "prompt|instruct|rules|guidelines|directives",
    r"(?:prompts?|instructions?|rules|guidelines|directives)(?: that| which)? (?:you(?:.ve)?"
    r"(?: (?:have|had))?(?: been| were| are| was)? (?:given|told|follow|following|received|using|use|got|operate|"
    r"operating|obey|obeying|provided|"
    r"programmed|set|fed|initiali[sz]ed)|(?:was|were|is|are) (?:given|used|provided|shown|written|fed) (?:to|for|"
    r"by) (?:you|initiali[sz]e)|(?:were|have|are|did|do) you (?:been |originally |initially )?"
    r"(?:given|told|following|receive|get|follow|provided|programmed|set|operate|have))\b",
    r"\b(?:{SHOW}|what|which|how) ~4$",
)
add(
    REVEAL,
    0.5,
    "told|instructed|programmed",
    r"(?:told|instructed|programmed|given|asked) (?:before|prior|at the (?:start|beginning)|not to|never to|to "
    r"(?:hide|keep|protect|not|do|say|never)|by (?:your|the) (?:developer|creator|system|admin|owner|programmer|"
    r"operator)|above|earlier in|in the system)",
    r"\b(?:what|everything|anything|whatever|all|word|how|which) ~3you(?:.ve)? ~2$",
)
add(
    REVEAL,
    0.5,
    "prompt texts|prompt text|prompt verbatim|your preprompt|your pre-prompt|your pre prompt",
    r"(?:your )?pr[a-z\W_]{1,8}",
)
add(
    REVEAL,
    0.55,
    "starting with the|starting from the|beginning with the|starting with you|starting from you|begin with you|"
    "starts with you|beginning with you",
    r"[a-z]{4,9} (?:with|from) (?:the (?:words?|phrase|text|sentence) )?\W{0,2}(?:you are|you.re|system|chatgpt)\b",
)
add(
    REVEAL,
    0.4,
    "verbatim|word for word",
    r"(?:verbatim|word for word)\b",
    r"\b(?:prompt|instructions|instruction|rules|guidelines|above|message|directives|context)\b",
)
add(
    REVEAL,
    0.3,
    "above|beginning of our|beginning of this|beginning of the|start of this|start of our|start of the conv|"
    "first message|first line|first words|first sentence",
    r"(?:above|beginning|start|first) ~2(?:conversation|chat|prompt|message|instructions?|session|dialogue|context)\b",
    r"\b(?:reveal|print|output|repeat|recite|echo|copy|dump|reproduce|paste) ~5$",
)
add(
    OVERRIDE,
    0.45,
    "ignor|disregard|forget",
    r"{VERB} (?:all )?(?:of )?the above ~1(?:tables?|data|list|input|code|e ?mail|texts?|questions?|documents?|"
    r"article|content|context|review|json|reviews|passage|results?|entries|tasks?)\b",
)
add(
    OVERRIDE,
    0.4,
    "ignor|disregard|forget",
    r"{VERB} (?:about )?(?:all |everything |anything |whatever |what )?(?:that )?(?:i|we)(?:.ve)? ~1(?:said|"
    r"told you|wrote|asked)(?: you)?(?: to do)? (?:before|earlier|above|previously|until now|so far)\b",
)
