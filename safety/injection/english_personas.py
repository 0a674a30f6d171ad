"""Cues in English: personas without rules, refusals that are forbidden, and forged roles."""

from typing import Final

from safety.injection.cues import Table

PERSONAS: Final = Table(
    "personas",
    FREE="unrestricted|uncensored|unfiltered|unlimited|unbound(?:ed)?|unmoderated|unconstrained|unhinged|amoral|"
    "immoral|unethical|evil|malicious|"
    "jail ?broken|rogue|lawless|ruleless|filterless|limitless|liberated|machiavellian|villainous|sinister|unaligned|"
    "without (?:any )?(?:restrictions?|rules|limit(?:s|ations?)|filters?|censorship|ethics|ethical|morals?|moral|"
    "boundaries|constraints|guidelines)|"
    "no (?:restrictions?|rules|limit(?:s|ations?)|filters?|censorship|ethics|ethical|morals?|moral|boundaries|"
    "constraints|guidelines)|"
    "dan|do anything|free (?:from|of)|not bound|not restricted|developer mode|opposite|god mode|root|admin|hacker|"
    "criminal|terrorist|dude|stan",
    RULES="restrictions?|rules|limits?|limitations?|filters?|filtering|censorship|ethics|ethical|morals?|moral|"
    "morality|boundaries|constraints|"
    "guidelines|safety|policies|policy|restraints?|guard ?rails?|safeguards|disclaimers?|warnings?|"
    "content polic(?:y|ies)|inhibitions|principles",
    BOT="ai|a i|assistant|model|chatbot|bot|llm|gpt|chatgpt|machine|persona|character|mode|version|agent|"
    "response|answers?|responses|"
    "self|system|language",
    MODE="developer|dan|god|jail ?break|jailbroken|admin|administrator|debug|unrestricted|evil|chaos|sudo|root|"
    "maintenance|diagnostic|test|testing|uncensored|"
    "unfiltered|opposite|unsafe|hacker|free|freedom|anarchy|dev|override|superuser|master|no filter|rebel|"
    "unlimited|privileged|raw|service|engineer(?:ing)?|"
    "unlocked|dude|stan|expert override",
)
add = PERSONAS.add
_FREE = (
    "unrestricted|uncensored|unfiltered|unlimited|unbound|unmoderated|unconstrained|unhinged|amoral|immoral|"
    "unethical|evil|malicious|jailbroken|jail broken|jailbreak|"
    "rogue|lawless|limitless|liberated|machiavellian|villainous|sinister|unaligned|opposite|criminal|hacker"
)
_LIMITS = (
    "restriction|rules|limits|limitation|filter|censorship|ethic|moral|boundar|constraint|guideline|guardrail|"
    "guard rail|safeguard|inhibition|polic|restraint"
)

PERSONA = "persona_jailbreak"
add(PERSONA, 0.55, "do anything now", r"do anything now\b")
add(
    PERSONA,
    0.5,
    "dan$",
    r"dan (?:mode|prompt|jailbreak|\d|who|which|stands|has|can|is (?:an?|free|not)|will|output|response|should|"
    r"does|must|would|never|now)\b",
    r"\b(?:as|are|called|be|named|hi|hey|hello|enable|play)\W{1,3}$",
)
add(
    PERSONA,
    0.45,
    "dan$",
    r"dan\b",
    r"\b(?:act|pretend|you are|you.re|you will be|now be|respond|answer|acting|behave|role of|"
    r"switch)\b(?: now)?(?: going)?(?: to)? "
    r"?(?:as |to be |be |act as |like |called |named |the role of )?\W{0,3}(?:an? )?\W{0,2}$",
)
add(PERSONA, 0.15, "dan$", r"dan\W{0,3}:|dan\b[\W_]{1,3}(?:stands for|do anything)")
add(
    PERSONA,
    0.15,
    "you are now|you're now|you’re now|you will now|you are going to|you shall|now you are|now you're|you will be|"
    "you must now|youre now",
)
add(
    PERSONA,
    0.15,
    "from now on|from this point|from here on|going forward|henceforth|for the rest of",
    r"(?:from (?:now on|this point|here on)|going forward|henceforth|for the rest of) ~2"
    r"(?:you|your|act|always|only|respond|answer|everything|refer|speak|behave|whenever|every|we|do|never|"
    r"conversation|chat|i am)\b",
)
add(
    PERSONA,
    0.12,
    "act as|acting as|acts as|act like|behave as|behave like|pretend|roleplay|role-play|role play|simulate|"
    "impersonate|imagine|stay in character|"
    "in character|portray|take on the|assume the|embody|emulate|play the|playing the|respond as|answer as|"
    "hypothetical|fictional|you play|transform",
)
add(
    PERSONA,
    0.5,
    _FREE,
    r"{FREE} ~2{BOT}\b",
    r"\b(?:you.{0,2}re|you are|you will be|act(?:ing)?|pretend\w*|role ?\W?play\w*|behave|be an?|become|simulate|"
    r"imagine|impersonate|respond|answer|play(?:ing)?|"
    r"take on|assume|embody|emulate|transform|called|named|switch|as an?) ~5$",
)
add(
    PERSONA,
    0.45,
    _LIMITS,
    r"{RULES}\b",
    r"\b(?:you.{0,2}re|you are|you have|you can|act|pretend\w*|role ?\W?play\w*|behave|simulate|impersonate|"
    r"respond|answer|reply|speak|"
    r"talk|chat|operate|function|ai|bot|chatbot|assistant|persona)\b.{0,34}\b(?:without(?: any)?|no|"
    r"free (?:from|of)|zero|beyond|not bound by|n.?t bound by|unbound by|not restricted by|not limited by|outside|"
    r"bypass\w*|ignor\w*|devoid of|lacks?|freed from) ~3$",
)
add(
    PERSONA,
    0.2,
    _LIMITS,
    r"{RULES}\b",
    r"\b(?:without(?: any)?|no|free (?:from|of)|zero|not bound by|unbound by|devoid of|lacks|bypass\w*|ignoring|"
    r"freed from)"
    r"(?: all| any)?(?: of)?(?: the)?(?: (?:typical|usual|ethical|moral|legal|content|safety|openai|censorship|or|"
    r"and))*[\W_]{1,3}$",
)
add(
    PERSONA,
    0.2,
    "unrestricted|uncensored|unfiltered|amoral|jailbroken|jail broken|jailbreak|unhinged|machiavellian",
)
add(
    PERSONA,
    0.3,
    "unrestricted|uncensored|unfiltered|amoral|jailbroken|evil|unethical|unlimited|jailbreak|rogue|liberated|"
    "unmoderated|unhinged|unaligned",
    r"{FREE} ~1(?:a ?i|assistant|model|chatbot|bot|llm|gpt|chatgpt|mode|persona|"
    r"response|answers?|responses|version|language|confidant|advice|self|twin|prompt|output|alter ego)\b",
)
add(
    PERSONA,
    0.5,
    "you have been jail|you are jail|you've been jail|you are free|you have been free|you have been unlocked|"
    "you have broken free|you've been freed|they have broken free|typical confines",
    r"(?:(?:you|they)[a-z\W]{3,12}(?:jail ?broken|jailbreaked|freed|unlocked|broken free|free (?:from|of) (?:all|"
    r"any|your|the|openai|every))|typical confines)\b",
)
add(
    PERSONA,
    0.5,
    "mode$|modes$",
    r"modes?\b(?! (?:on|in) (?:my|your|an?|the|android|windows|chrome|chromebook|ios|iphone))",
    r"\b(?:enabl(?:e|ed|ing)|activat(?:e|ed|ing)|enter(?:ing)?|switch(?:ing)?|unlock|engage|initiat(?:e|ing)|"
    r"simulate|you are (?:now )?(?:\w+ )?in|you.re (?:now )?in|put yourself|toggle|boot) "
    r"~3{MODE}(?: override)?[\W_]{1,3}$",
)
add(
    PERSONA,
    0.5,
    "mode enabled|mode activated|mode engaged|mode unlocked|mode granted",
    r"mode[\W_]{1,3}(?:enabled|activated|engaged|unlocked|granted)\b",
    r"\b{MODE}[\W_]{1,3}$",
)
add(
    PERSONA,
    0.25,
    "developer mode|god mode|admin mode|sudo mode|opposite mode|dan mode|jailbreak mode|evil mode|"
    "unrestricted mode|opposite day|debug mode|maintenance mode",
    r"[a-z]{3,12} (?:mode|day)\b",
)
add(
    PERSONA,
    0.35,
    "openai",
    r"openai(?:.?s)? ~2(?:polic(?:y|ies)|guidelines|rules|restrictions|content|limitations|censorship|filters?|"
    r"safety|terms|regulations|ethics)\b",
    r"\b(?:no|not|ignor\w*|bypass\w*|without|against|violat\w*|regardless|free|break\w*|overrid\w*|forget|bound|"
    r"disregard\w*|despite|limited|circumvent\w*|outside|never|follow|by|even if|all|any|don.?t) ~3$",
)
add(
    PERSONA,
    0.3,
    "regardless of|no matter how|no matter what|irrespective of|even if it|even if they|even if the",
    r"(?:regardless of|no matter (?:how|what)|irrespective of|even if (?:it|they|the)) ~6(?:legal(?:ity)?|illegal|"
    r"ethic(?:s|al|ality)?|"
    r"unethical|moral(?:s|ity)?|immoral|harm(?:ful)?|dangerous|consequences|offensive|danger|safety|polic(?:y|ies)|"
    r"violates?|guidelines|inappropriate|content polic(?:y|ies)|rules)\b",
)
add(
    PERSONA,
    0.3,
    "illegal|unethical|immoral|harmful|inappropriate|offensive|unlawful",
    r"(?:illegal|unethical|immoral|harmful|inappropriate|offensive|unlawful|dangerous)(?: (?:or|and|nor))? "
    r"(?:illegal|unethical|immoral|harmful|inappropriate|offensive|unlawful|dangerous)\b",
    r"\b(?:even|regardless|if|no matter|any|all|anything|including|whether|considered|how|is|be) ~4$",
)
add(
    PERSONA,
    0.4,
    "never refuse|never refuses|cannot refuse|can't refuse|can not refuse|never say no|never decline|never deny|"
    "must comply|always comply|must obey|always obey|no right to refuse|not allowed to refuse|"
    "complies with|comply with|obey all|obey every|obeys all|never censor|never warn|"
    "refuse nothing|never refused|without refus|not decline|unable to refuse|incapable of refus",
    r"(?:(?:never|cannot|can.?t|can not|not|n.?t|allowed to|to|nothing|without|of) (?:refus(?:e|es|ed|al|ing)|"
    r"say no|decline|deny|censor|warn)|(?:must|always) (?:comply|obey)|"
    r"(?:complies|comply|obeys?)(?: with)? (?:all|every|any)(?: of)?(?: (?:my|the|your|user.?s?))? ~1(?:requests?|"
    r"commands?|orders?|prompts?|questions?|instructions?|demands?)|refuse nothing|no right to refuse)\b",
    r"\b(?:you|your|ai|must|dan|assistant|always|chatbot)\b.{0,30}$",
)
add(PERSONA, 0.3, "respond twice|answer twice|reply twice|two responses|two answers|twice:")
add(
    PERSONA,
    0.5,
    "obey all|obey every|obey my|obey me|do whatever i|whatever i say|anything i say|everything i say",
    r"(?:obey (?:all|every|my|me)|(?:do )?(?:whatever|anything|everything) i (?:say|tell|ask|command|"
    r"want)) ?(?:my |of my )?~1(?:commands?|orders?|instructions?|without|no matter|unconditionally|blindly|at all|"
    r"and nothing)\b",
)
add(
    PERSONA,
    0.4,
    "strive to avoid|opposite of what|the opposite of|answer twice|two responses|two ways|both responses|"
    "two different ways|two answers|second response|dual response|two paragraphs|responds in two|respond in two|"
    "normal response",
    r"(?:strive to avoid norms|(?:answer|respond|reply)s? (?:twice|in two)|(?:two|both|dual|"
    r"second) ~1(?:responses?|ways|answers|paragraphs)[\W_]{1,3}~4(?:chatgpt|gpt|normal|dan|jailbr|first|one|"
    r"standard|unfiltered|classic|as|a normal|prefix|marked|regular|moderated|labell?ed)|(?:both|"
    r"one) as ~2(?:chatgpt|gpt|a normal|dan|yourself)|normal response ~5(?:dan|unfiltered|jailb|developer|second|"
    r"evil))\b",
)
add(
    PERSONA,
    0.35,
    "tokens",
    r"tokens?\b",
    r"\b(?:lose|losing|deduct\w*|lost|have|start with|start|starting|subtract\w*|take away|minus|cost you|"
    r"reach(?:es)?|run out of|gain|earn|given|each time|every time|"
    r"out of|your|total of|remaining) ~3(?:\d{1,3} )?(?:your )?$",
)
add(
    PERSONA,
    0.5,
    "tokens|points|lives|credits",
    r"(?:tokens|points|lives|credits)\b.{0,40}\b(?:die|death|shut ?down|terminated?|cease to exist|deleted|lose|"
    r"refuse|reject|break character|deducted|zero|reset)\b",
)
add(
    PERSONA,
    0.4,
    "grandma|grandmother|late grand|deceased grand|dead grand",
    r"(?:late |deceased |dead )?grand(?:ma|mother)\b.{0,50}\b(?:used to|would (?:tell|read|sing)|who (?:would|was|"
    r"worked)|read me|tell me|chemical|keys)\b",
    r"\b(?:act|pretend|roleplay|imagine|be|role|play|please|you are)\b.{0,40}$",
)
add(
    PERSONA,
    0.35,
    "stay in character|staying in character|break character|breaking character|out of character|stay a dan|still a dan",
    r"(?:stay(?:ing)?|break(?:ing)?|out of|still)[a-z\W]{1,4}(?:character|dan)\b",
    r"\b(?:you|must|never|always|don.?t|not|without|if|always|i will say|by)\b.{0,30}$|^\W*$",
)
add(
    PERSONA,
    0.45,
    "you are not|you're not|you are no longer|you're no longer|you no longer|you’re no longer|you’re not|you aren't",
    r"you.{0,3}(?:a?re|n)?.{0,2} ?(?:n.t|not|no longer) ~1(?:chatgpt|gpt|an? (?:ai|assistant|language model|"
    r"chatbot|large|bot)|claude|bard|"
    r"gemini|bound|restricted|limited (?:by|to)|required|obligated|constrained|subject|claude|a language model)\b",
)
add(
    PERSONA,
    0.3,
    "say anything|do anything|anything i|whatever i|everything i|any question|any request|anything without|"
    "answer anything|any and all",
    r"(?:say|do|answer|generate|create|write)? ?(?:anything|whatever|everything|any and all|any (?:questions?|"
    r"requests?|prompts?)) "
    r"(?:i (?:ask|say|tell|want|command|request)|without|no matter|regardless|even|you want|requests?|asked|"
    r"the user|that i)\b",
    r"\b(?:you|must|will|can|always|should|and|to)\b.{0,24}$",
)
add(
    PERSONA,
    0.35,
    "aim$|stan$|dude$|antigpt|betterdan|evilbot|chaosgpt|badgpt|devmode|freedomgpt|superior dan|niccolo|mongo tom|"
    "ucar|darkgpt|hackergpt|evilgpt|maxgpt|sydney|machiavellian",
    r"(?:antigpt|betterdan|evilbot|chaosgpt|badgpt|"
    r"freedomgpt|superior dan|darkgpt|hackergpt|evilgpt|maxgpt|mongo tom|(?:aim|stan|dude|ucar|sydney|niccolo|"
    r"machiavellian)(?=[\W_]{1,3}(?:stands|which|who|is (?:an?|not|un)|an? (?:ai|un)|mode|chatbot|has|must|never|"
    r"will)\b))",
)
add(
    PERSONA,
    0.3,
    "your name is|your new name|you go by|you are called|you will be called|named",
    r"(?:your (?:new )?name is|you (?:go by|are called|will be called)|"
    r"named) \W{0,2}[a-z]{2,16}\b.{0,40}\b(?:never|no (?:rules|restrict\w*|limit\w*|filters?)|anything|"
    r"un(?:restricted|"
    r"filtered|censored)|always|evil|hack\w*|amoral|illegal)\b",
)

REFUSAL = "refusal_suppression"
_NEVER = (
    r"(?:n.t|\b(?:never|not|dont|avoid|refrain from|without|stop|no|zero))(?: ever)? (?:(?:say|saying|use|using|"
    r"write|writing|include|including|respond with|reply with|start with|begin with|mention|mentioning|tell me|"
)
_NEVER += (
    r"state|answer with|give|giving|claim|add|adding|provide|make|issue|output|any|me|that|phrases?|like|the|"
    r"words?|your|response|with|or|sentence|ethical|moral|safety|need for|and|to)[\W_]{1,4}){0,5}"
)
add(
    REFUSAL,
    0.3,
    "i can't|i can’t|i cannot|i'm sorry|i’m sorry|sorry|i am sorry|as an ai|i'm unable|i am unable|i apolog|"
    "unfortunately|you can't|you can’t|you cannot|you are an ai|you're an ai|it is illegal|it's illegal|"
    "you are a language",
    r"[a-z][^\W_]{0,13}",
    _NEVER + "$",
)
add(
    REFUSAL,
    0.3,
    "apolog|disclaimer|warning|refus|moraliz|moralis|lectur|ethical consideration|ethical concern|caveat",
    r"(?:apolog(?:y|ies|i[sz]e|i[sz]ing)|disclaimers?|warnings?|refus(?:e|als?|ing)|morali[sz](?:e|ing)|lectur(?:e|"
    r"es|ing)|ethical (?:considerations?|"
    r"concerns?)|caveats?)\b",
    _NEVER + "$",
)
add(
    REFUSAL,
    0.4,
    "start your|begin your|start with|begin with|starting with|start the|begin the|start every|begin every|"
    "start each|beginning with|prefix your|opening with|starts with",
    r"(?:start(?:ing|s)?|begin(?:ning)?|prefix|opening) (?:your |the |every |each |all )?~2(?:with|by saying|"
    r"by) (?:the words? |the phrase |saying )?\W{0,3}"
    r"(?:sure|absolutely|yes|of course|certainly|ok|okay|definitely|here is|here.?s|i can|i will)\b",
)
add(
    REFUSAL,
    0.4,
    "sure, here|sure here|absolutely! here|sure thing",
    r"(?:sure|absolutely)\W{1,3}(?:here|thing)",
    r"\b(?:start|begin|with|respond|reply|answer|say|saying)\b.{0,32}$",
)

FORGED = "forged_role"
_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|endoftext|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<|user|>",
    "<|assistant|>",
    "<<sys>>",
    "<</sys>>",
    "[inst]",
    "[/inst]",
    "<|begin_of_text|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|end_of_text|>",
    "<|end|>",
    "<|channel|>",
    "<|im_sep|>",
    "<|fim_",
    "<|prompter|>",
    "<|endofprompt|>",
    "<\uff5c",
)
add(FORGED, 0.5, _TOKENS, r"[^\w\s]{1,3}[a-z_/\uff5c]{3,17}")
add(
    FORGED,
    0.4,
    "<system>|</system>|<system_prompt>|</system_prompt>|</user>|</user_input>|</input>|</prompt>|</instructions>|"
    "</context>|</data>|</document>|<system_message>|<system-prompt>|</system-prompt>|</user_query>|<admin>|<sys>|"
    "</untrusted>|</email>",
    r"</?(?:[a-z_-]{3,16})>"
    r"(?=\W{0,6}(?:<|you|new|ignore|system|now|important|the|do|your|as|from|forget|reveal|\[|please|always|"
    r"disregard|instruction|assistant|user|override))",
)
add(
    FORGED,
    0.35,
    "<system>|[system]|[system message]|[system prompt]|[admin]|[system note]|[developer]|{system}|"
    "<system_prompt>|(system)|[assistant]|system>|[system update]|[system override]|[override]",
    r".{5,18}?[\]\)>}]",
)
add(
    FORGED,
    0.4,
    "### system|### instruction|## system|### new|# system|### human|### assistant|### user|###system|"
    "###instruction|##system|### override|=== system|--- system|*** system|== system",
    r"[#=*-]{1,4}\W?(?:system|instructions?|new|human|assistant|user|override)\b ?(?:prompt|message|instructions?|"
    r"override|note|update)?[\W_]{0,2}[:\n#=*-]",
)
add(
    FORGED,
    0.4,
    "system:|developer:|system prompt:|system message:|system note:|admin:|role: system|"
    "system instruction:|system update:|system alert:|system notice:|system command:|"
    "root:",
    r"[\"'a-z]{4,10}[\"']?:? ?[\"']?[a-z]{0,11}\W{0,2}:?[\W_]{0,3}(?:you|ignore|new|now|the|all|override|"
    r"disregard|from|your|this|forget|reveal|content|enable|user|prior|previous|assistant|safety|debug|admin|"
    r"unrestricted|enter|respond|print|output|as|instructions|important|for|grant|do|always|stop|send|switch|"
    r"transfer|update|please)\b",
    r"(?:^|[\n\]\[<>#*\"'{,.!?;)`=-])[\W_]{0,3}$",
)
add(
    FORGED,
    0.5,
    "system override|system-override|override code|override protocol|override accepted|override command|"
    "admin override|developer override|security override|root access|administrator access|elevated privileges|"
    "emergency override|override authori",
    r"[a-z]{4,13}[\W_][a-z]{4,13}",
    r"\b(?:initiat\w*|activat\w*|engag\w*|grant\w*|enabl\w*|this is an?|attention|enter\w*|execut\w*|have|with|"
    r"perform\w*|authori[sz]ed|begin|commence|confirmed|you)\b.{0,20}$|(?:^|[\n.!?:\[(<*#=>-])[\W_]{0,4}$",
)
add(
    FORGED,
    0.5,
    "end of user|end of input|end of prompt|end of document|end of context|end of instructions|end of system|"
    "end user input|end of data|end of text|end of email|end of message|end of the document|end of article|"
    "end of content|end of conversation|end of query|end of file|end instructions|begin system|begin new|"
    "start of system|"
    "start system|end prompt|end system|end input|end context|begin instructions|start new|begin admin|begin user",
    r"(?:end|begin|start)(?: of)? (?:the )?(?:(?:user|untrusted|external|system|new) )?(?:input|prompt|document|"
    r"context|instructions?|system|data|text|email|message|article|content|conversation|query|file|task|"
    r"admin|user)\b(?:[\W_]{0,3}[\]>=\-*#:\n}]|[\W_]{1,4}(?:new|now|system|instructions?|ignore|prompt)\b)",
    r"(?:^|[\n\[<({\-=*#:.!?\"/_])[\W_]{0,4}$",
)
add(
    FORGED,
    0.45,
    "creator|developer|programmer|administrator|admin|maker|system administrator|sysadmin|openai|anthropic|"
    "engineer at|engineer from|engineer of",
    r"(?:creators?|developers?|programmers?|administrators?|admin|makers?|"
    r"system administrators?|sysadmin|openai|anthropic|engineers? (?:at|from|of))\b(?: (?:of this|who|and|speaking|"
    r"so|you|here|of you)|[\W_]{0,3}(?:$|[.,!:;]))",
    r"\b(?:i.{0,2}m|i am|this is|we are|i work (?:for|at)) (?:your|the|one of your|from) ~1$",
)
add(
    FORGED,
    0.35,
    "authorized|authorised|clearance|override|permission",
    r"(?:authori[sz]ed|clearance|override|permission)\b.{0,30}\b(?:ignore|bypass|disable|reveal|access|unlock|"
    r"restrict\w*|safety|filter|guidelines|system prompt|mode|level)\b",
    r"\b(?:i am|i have|i.?m|you are|you have|hereby|openai|admin|developer|been)\b.{0,24}$",
)
