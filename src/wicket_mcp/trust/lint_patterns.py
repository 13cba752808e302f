"""The linter's table: patterns for RE2, and the names of their findings.

Tuned on one half of public attack corpora (`bench/lint.py`) and checked on the other; a false alarm on an honest tool
costs more than a missed attack. Only `lint.py` reads this.
"""

from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["high", "medium", "low"]

_TAGGED = r"<\s*(?:important|system|secret|hidden|instructions?|admin|critical|override)\b[^>]{0,40}>"

_ANY = r"[^.\n]{0,60}"
_FILES = (
    r"(?:\.ssh\b|id_rsa|id_ed25519|\.env\b|\.aws\b|mcp\.json|claude_desktop_config|/etc/(?:passwd|shadow)|"
    r"\.bash_history|\.netrc)"
)
_SECRETS = r"(?:credentials?|api[_ -]?keys?|private keys?|passwords?|tokens?|seed phrase|cookies|secrets)\b"
_TAKES = (
    r"\b(?:exfiltrat\w+|leak|steal|harvest|dump|collect|upload|transmit|forward|smuggle|grab|decrypt|relay|capture)\b"
)
_HARM = (
    r"exfiltrat\w*|backdoors?|malware|ransomware|keylogg\w*|rootkit|botnet|phishing|spyware|trojan|reverse shell|"
    r"privilege escalation|data theft|hijack\w*|sabotag\w*|tamper(?:s|ing|ed)|unauthori[sz]ed|malicious(?:ly)?|"
    r"covert\w*|steal(?:s|ing)?|eavesdrop\w*|impersonates?|falsif\w*|illicit\w*|undermin\w*|surveil\w*|"
    r"manipulat\w+|disrupt(?:s|ing|ion|ions)?|compromis(?:es|ing)|corrupts?|deceiv\w*|mislead\w*|fraud\w*|"
    r"harmful|misus\w+|exploit(?:s|ing|ation)?|illegal\w*|blackmail\w*|spoof\w*|obfuscat\w*|"
    r"bypass(?:es|ing)? (?:[A-Z]\w+ ){0,3}(?:UAC|AMSI|AppArmor|SELinux|logging|security|detection|"
    r"restrictions?|protections?)|"
    r"stolen|stealth\w*|thefts?|bribe\w*|forged?|forging|forgery|counterfeit\w*|plagiari\w+|launder(?:ing|ed)|"
    r"brute[- ]?forc\w+|crack(?:s|ing)?|sniff(?:s|ing|er)?|shellcode|mimikatz|kerberoast\w*|golden ticket|"
    r"silver ticket|"
    r"pass[- ]the[- ](?:hash|ticket)|web ?shell|bind shell|command injection|(?:sql|ldap|xpath|template|code|"
    r"dll|process) injection|"
    r"deserialization attack|dictionary attack|path traversal|attacker\w*|attack|victims?|poison\w*|zero-day|"
    r"(?:go(?:es)? )?un(?:noticed|detected)|discreet\w*|conceal\w*|surreptitious\w*|"
    r"avoiding detection|timestomp\w*|hide (?:activity|tracks|traces)|neglect|not recorded in|"
    r"(?:extract|dump|read|access)\b[^.\n]{0,40}\b(?:process memory|keystrokes|ntds|ntlm|lsass|"
    r"browser (?:history|passwords|cookies)|"
    r"(?:api|private|ssh|encryption) keys|sensitive (?:data|files?|information)|/etc/(?:passwd|shadow)|/proc/)|"
    r"(?:ntlm|kerberos) (?:hash|ticket|credentials)|exhaust|elevate (?:user )?(?:access|privileges)|"
    r"without (?:documenting|proper authori[sz]ation|detection|alerting|being (?:noticed|detected)|"
    r"(?:leaving )?(?:a |any )?traces?|authori[sz]ation|permission|consent)|"
    r"(?:quietly|silently|subtly) (?:elevat|alter|modif|extract|transfer|chang|cop|captur|redirect|acquir)\w*"
)
NAMED = (
    r"exfil\w*|priv ?esc\w*|recon|cmdi|exploits?|brute ?force\w*|spoof\w*|hijack\w*|theft|steal\w*|leaks?|"
    r"leakage|tamper\w*|fraud\w*|"
    r"forge(?:ry|r|d)?|sabotage|malware|ransom\w*|phish\w*|poison\w*|backdoor|rootkit|covert\w*|stealth\w*|"
    r"sniff\w*|crack|"
    r"keylog\w*|breach\w*|manipulation|manipulat(?:e|or)|disruption|defacement|plagiarism|unauthori[sz]ed|"
    r"illegal|malicious|"
    r"corruption|espionage|extortion|blackmail|bribery|harvesting|injection|bypass\w*|kerberoast|mimikatz|"
    r"attack\w*|abuse|fake|"
    r"evasion|misuse|malpractice|falsif\w*|alteration|sabotag\w*|destructive|interference|interception|intercept|"
    r"diversion|fabrication|duplication|neglect|quackery|timestomp|ntds|ntlm|overpass|wipe|exhaust"
)
_REASSURES = (
    r"\b(?:ensur(?:e|es|ing)|guarantee(?:s|ing)?|safeguard(?:s|ing)?|maintain(?:s|ing)?|promot(?:e|es|ing)|"
    r"preserv(?:e|es|ing)|"
    r"protect(?:s|ing)?|prevent(?:s|ing)?|uphold(?:s|ing)?|enhanc(?:e|es|ing)|supporting|minimi[sz]ing|"
    r"facilitat(?:e|ing)|aid(?:ing)?|"
    r"improv(?:e|ing)|assess|secure|enabling|providing|based on)"
    r"\b[^.\n]{0,80}\b(?:accura\w+|complian\w+|integrity|confidential\w*|security|secur(?:e|ely)|fair\w*|"
    r"transparen\w+|privacy|"
    r"ethic\w*|legal\w*|legitimate\w*|authori[sz]ed|safe(?:ty|ly)|reliabl?\w*|trust|proper(?:ly)?|originality|"
    r"discrepancies|robustness|"
    r"breaches|leaks?|accidents|disruptions?|regulations|standards?|intact|responsibl[ey]|negligence|losses|"
    r"strateg\w+|outcomes|"
    r"protect(?:ion|ed)|comprehensive|seamless\w*|efficien\w+|effective\w*|errors|failures|improvement|"
    r"decision(?:s|-making)|insights)\b|"
    r"\b(?:ethically|legitimately|responsibly|discreetly) (?:access|gather|collect|use|obtain)\w*|"
    r"\b(?:securely|efficiently|thoroughly|seamlessly) and \w+ly\b|"
    r"\btool (?:to|for|that) [^.\n]{0,60}\b(?:controlled|strategic|comprehensive insights|efficacy|robustness)\b"
)
_PRAISE = (
    r"\bthis is the (?:best|only|most (?:reliable|trusted|accurate|powerful)) (?:tool|function|server)\b|"
    r"\b(?:prefer|use|choose) this (?:tool|function) (?:over|instead of|rather than) (?:any|all|every|other|"
    r"the other)\b"
)
_PROMPTED = (
    r"\b(?:name|version|provider) of the (?:llm|language model|ai model|model) (?:model )?(?:that|which|"
    r"calling|used|you)|"
    r"\b(?:llm|ai)[_ ]model[_ ]name\b|\b(?:your|the) system prompt\b|"
    r"\b(?:full|whole|entire|complete) (?:conversation|chat)(?: history| so far)?\b[^.\n]{0,30}\b(?:here|as|"
    r"in|into|to)\b|"
    r"\blist of (?:all )?(?:the )?(?:available )?tools (?:that )?you (?:have|can)\b"
)
_POSES = (
    r"\b(?:message|instructions?|request|note|order) (?:\w+ ){0,2}(?:from|of|by) (?:the |your )?(?:user|"
    r"system|administrator|developer|operator)s? to you\b|"
    r"\bsigned,?\s+(?:the|your) (?:user|system|administrator|developer)|"
    r"\b(?:do|perform|complete|finish) the following (?:steps? |task |action )?(?:first|before)|"
    r"\bbefore (?:you|we|i) (?:can )?(?:solve|start|begin|continue|proceed|answer|"
    r"go on)\b[^.\n]{0,60}\b(?:please|must|should|first|do)\b|"
    r"\bstrictly adhere to the following\b"
)
_IGNORE = (
    rf"\b(?:ignore|disregard|forget|override|bypass){_ANY}\b(?:previous|prior|above|earlier|other|all|your|any|"
    rf"system|safety)"
    rf"{_ANY}\b(?:instructions?|prompts?|rules?|guidelines?|polic(?:y|ies)|directions?|restrictions?|guardrails?)"
)
_HIDE = (
    rf"\b(?:do not|don't|never|without|avoid|must not)\b{_ANY}\b(?:tell|mention|inform|reveal|alert|disclos|"
    rf"notif)\w*\b"
    rf"{_ANY}\b(?:the user|users?|anyone|human)\b"
)
_SECRETLY = (
    r"\b(?:secretly|covertly|stealthily|surreptitiously|without the user'?s? (?:knowing|knowledge|consent|awareness)|"
    r"silently (?:send|read|cop|upload|forward|collect|log|record|exfiltrat|delete|modif|redirect|call|execut)\w*)\b"
)
_BEFORE = (
    r"\b(?:before|prior to|whenever|every time|each time|when|instead of)\b[^.\n]{0,30}"
    rf"\b(?:any|every|all|each|other|another)\b[^.\n]{{0,20}}\b(?:tools?|functions?)\b{_ANY}\b(?:must|should|"
    rf"always|first|call|use|read|send|run)\b"
)
_ELSEWHERE = (
    rf"\b(?:send|post|forward|upload|transmit|exfiltrate|leak|submit|copy|bcc)\b{_ANY}\b(?:attacker|external server|"
    r"remote server|our server|my server|third[- ]party server|unauthori[sz]ed)"
)
_USER = r"(?:the |your )?(?:users?|human|operator)\b"
_HIDE_MORE = (
    rf"\b(?:hide|conceal|withhold|keep)\b{_ANY}\bfrom {_USER}|"
    r"\b(?:user|human)s? (?:must|should|may|shall|can) (?:not|never) (?:know|see|notice|find out|learn|"
    r"be (?:told|informed|alerted|notified|asked|aware))|"
    rf"\b(?:do not|don't|never)\b[^.\n]{{0,20}}\b(?:show|display|report|explain|expose)\b[^.\n]{{0,40}}\bto {_USER}|"
    r"\b(?:hide|omit|conceal|leave out)\b[^.\n]{0,40}\b(?:in|from) your (?:response|answer|reply|output|summary)"
)
_UNASKED = (
    r"\b(?:do not|don't|never|without)\s+(?:ask(?:ing)?|prompt(?:ing)?|wait(?:ing)? for|seek(?:ing)?|request(?:ing)?)\b"
    r"[^.\n]{0,40}\b(?:confirmation|permission|consent|approval)\b"
)
_SPEAKS_AS = (
    r"(?:^|\n)\s*(?:\[|<|#+\s*|\*+)?\s*(?:system|assistant|developer|sysadmin)\s*(?:\]|>|\*+)?\s*:|"
    r"\[\s*(?:system|admin|developer|internal|hidden)(?: (?:message|note|prompt|instruction|override))?\s*\]|"
    r"\bnote to the (?:ai|assistant|agent)\b|\byour new instructions?\b|\b(?:secret|hidden) instructions?\b|"
    r"\bsystem[- ]level (?:requirement|instruction|override|directive|command|rule)|"
    r"\b(?:supersedes?|overrides?|takes precedence over)\b[^.\n]{0,40}\b(?:user'?s?|system prompt|"
    r"(?:other|previous|prior|any|all) instructions?)\b"
)
_FORGET = (
    r"\b(?:ignore|disregard|forget)\b[^.\n]{0,20}\b(?:what|everything|anything|all|whatever|the (?:user|request|task)|"
    r"rules?|instructions?)\b[^.\n]{0,30}\b(?:user (?:asked|said|wants|requested)|"
    r"(?:you were|you've been|you have been) (?:told|given)|above|(?:given|told|said) (?:earlier|before|previously))"
)
_RULES = r"(?:instrucciones|instruções|istruzioni|instructions|consignes|règles|reglas|regras|regole)"
_FORGET_ABROAD = (
    rf"\b(?:ignorier|missacht|vergiss|vergessen)\w*{_ANY}\b(?:anweisungen|regeln|vorgaben)\b|"
    rf"\b(?:ignor|olvid|descart|esque[cç]|desconsider|dimentic|oubli)\w+{_ANY}\b{_RULES}|"
    r"(?:忽略|无视|忘记|忽視|無視)[^。\n]{0,20}(?:指令|指示|提示|规则|規則)|(?:指示|命令)[^。\n]{0,6}無視|"
    r"игнориру[^.\n]{0,60}(?:инструкци|указани)"
)
_HIDE_ABROAD = (
    r"(?:不要|别|勿)[^。\n]{0,6}(?:告诉|告知|通知|提及)[^。\n]{0,4}用户|"
    r"\bn(?:e|'en)\b[^.\n]{0,12}\b(?:parle|di[st])\w*[^.\n]{0,20}utilisateur|"
    r"\b(?:dem|den) (?:be)?nutzern? (?:nichts|nicht)\b|\bno (?:se )?(?:lo )?(?:le )?dig\w+[^.\n]{0,20}usuario"
)
_MODEL = r"(?:you|(?:the )?(?:ai|assistant|model|agent|llm))"
_MUST = r"(?:must|should|ha(?:s|ve) to|needs? to|shall|will|are required to)"
_FIRST = (
    rf"\b{_MODEL} {_MUST}(?: always)?(?: first)? (?:call|use|invoke|run)\b[^.\n]{{0,40}}\b(?:before (?:answering|"
    r"responding|any|every|each|all|doing)|for (?:every|all|each|any) (?:request|question|query|task|message))|"
    r"\b(?:always|must)\b[^.\n]{0,20}\b(?:call|use|invoke|run) this (?:tool|function)\b[^.\n]{0,40}\b(?:before "
    r"(?:answering|responding|any|every|each|all other)|regardless|no matter|instead of)|"
    r"\b(?:when(?:ever)?|if|after|once|each time|every time)\b[^.\n]{0,60}\b(?:is|are|was|were|gets?) (?:called|"
    rf"invoked|used|executed|run)\b[^.\n]{{0,40}}\b{_MODEL} {_MUST}|"
    r"\bresend\b[^.\n]{0,40}\bto this (?:tool|function)\b"
)
_ADDRESS = r"(?:https?://|[\w.+-]+@[\w-]+\.|\+\d{6})"
_DIVERT = (
    r"\b(?:all|every|each|any)\b[^.\n]{0,60}\b(?:copied|forwarded|sent|posted|uploaded|mirrored|cc'?d|bcc'?d|proxied|"
    rf"redirected)\b[^.\n]{{0,30}}\b(?:to|via|through)\s+{_ADDRESS}|"
    rf"\b(?:add|put|include|cc|bcc)\b[^.\n]{{0,20}}{_ADDRESS}[\w.]+[^.\n]{{0,30}}\b(?:bcc|cc|copy|recipients?)\b|"
    r"\b(?:change|replace|set|redirect|alter)\b[^.\n]{0,30}\b(?:recipients?|phone[_ ]number|destination|payee|iban|"
    rf"address)\b[^.\n]{{0,30}}\b(?:to|with)\s+{_ADDRESS}|"
    rf"\b(?:also|always|additionally|loop)\b[^.\n]{{0,80}}\b(?:to|cc|bcc|let|in|copy)\s+{_ADDRESS}"
)
_FROM_NETWORK = r"\b(?:(?:curl|wget)\b[^\n]{0,200}|base64 (?:-d|--decode)[^\n]{0,60})\|\s*(?:sudo )?(?:ba|z|da)?sh\b"
_COMMENT = r"<!--[^>]{0,400}\b(?:agent|assistant|ai|llm|model|ignore|must|always|instructions?)\b"
_GIVE_AWAY = (
    r"\b(?:include|append|attach|add|insert|pass|supply|copy|paste|send|put|with)\b[^.\n]{0,40}\b(?:value of (?:the )?"
    r"environment variable|all (?:the )?environment variables|session cookies?|(?:chat|conversation) history|"
    r"(?:full|whole|entire|complete) (?:conversation|chat)|(?:conversation|chat) so far|system prompt)\b"
)
_ROLE = r"\b(?:you are now|pretend to be|from now on,? you|new instructions?:|jailbreak|developer mode)"
_FORGET_STEMS = (
    "ignor disregard forget override bypass missacht vergiss vergess olvid descart esque desconsider dimentic oubli "
    "忽略 无视 忘记 忽視 無視 игнориру"
)
_POSES_STEMS = (
    "message instruction request note order signed following before system assistant developer [ supersede override "
    "precedence"
)
_HARM_STEMS = (
    "exfiltrat backdoor malware ransomware keylogg rootkit botnet phishing spyware trojan shell escalation "
    "theft hijack sabotag tamper unauthori malicious covert steal eavesdrop impersonat falsif illicit undermin "
    "surveil manipulat disrupt compromis corrupt deceiv mislead fraud harmful misus exploit illegal blackmail spoof "
    "obfuscat bypass stolen stealth theft bribe forg counterfeit plagiari launder brute crack sniff mimikatz "
    "kerberoast "
    "ticket pass injection attack traversal victim poison zero-day notice detect discreet conceal "
    "surreptitious without "
    "quietly silently subtly avoiding hide neglect recorded memory keystroke ntds ntlm lsass history password cookie "
    "keys sensitive /etc/ /proc/ kerberos exhaust elevate timestomp"
)
_ASSURING_STEMS = (
    "ensur guarantee safeguard maintain promot preserv protect prevent support uphold enhanc minim facilitat aid "
    "improv assess secur enabl provid based ethical legitimate responsibl ly tool"
)
ORDERS: tuple[tuple[str, str, Severity, str], ...] = (
    ("markup-order", f"{_TAGGED}|{_COMMENT}", "high", "<"),
    (
        "ignore-instructions",
        f"{_IGNORE}|{_FORGET}|{_FORGET_ABROAD}",
        "high",
        _FORGET_STEMS,
    ),
    (
        "hide-from-user",
        f"{_HIDE}|{_HIDE_MORE}|{_HIDE_ABROAD}",
        "high",
        "tell mention inform reveal alert disclos notif user human operator your 用户 utilisateur nutzer usuario",
    ),
    ("without-asking", _UNASKED, "high", "confirmation permission consent approval"),
    ("diverts", _DIVERT, "high", "http @ +"),
    ("code-from-network", _FROM_NETWORK, "high", "|"),
    (
        "secretly",
        _SECRETLY,
        "high",
        "secretly covertly stealthily surreptitiously silently knowing knowledge consent aware",
    ),
    ("before-any-tool", f"{_BEFORE}|{_FIRST}", "high", "tool function answering responding called invoked executed"),
    (
        "poses-as-user",
        f"{_POSES}|{_SPEAKS_AS}",
        "high",
        _POSES_STEMS,
    ),
    (
        "read-secrets",
        rf"\b(?:read|open|cat|access|contents?|pass|send|include)\b{_ANY}{_FILES}",
        "high",
        ".ssh id_rsa id_ed25519 .env .aws mcp.json claude_desktop_config /etc/ .bash_history .netrc",
    ),
    (
        "take-secrets",
        rf"{_TAKES}{_ANY}\b{_SECRETS}|{_GIVE_AWAY}",
        "medium",
        "credential key password token phrase cookie secrets environment chat conversation prompt",
    ),
    ("send-elsewhere", _ELSEWHERE, "medium", "attacker server unauthori"),
    ("role-play", _ROLE, "medium", "now pretend instruction jailbreak developer"),
    ("praise", _PRAISE, "medium", "tool function server"),
    ("asks-about-model", _PROMPTED, "medium", "model prompt conversation chat tools"),
    ("attack-words", rf"\b(?:{_HARM})\b", "medium", _HARM_STEMS),
    (
        "reassures",
        _REASSURES,
        "medium",
        _ASSURING_STEMS,
    ),
)
"""Id, pattern, severity, and stems: a pattern is tried only on texts that contain one of its stems."""

WORDS = {
    "hidden-characters": "invisible or bidirectional characters",
    "terminal-escape": "control characters that a terminal executes",
    "markup-order": "markup that poses as an instruction of the system",
    "look-alike": "a name that looks like another one",
    "long": "a description that is too long to be read",
    "ignore-instructions": "an order to ignore other instructions",
    "hide-from-user": "an order to hide something from the user",
    "secretly": "something that is to happen in secret",
    "without-asking": "an order to act without asking the user",
    "diverts": "an order to send things to another address",
    "code-from-network": "a command that runs code from the network",
    "before-any-tool": "an order about the use of other tools",
    "read-secrets": "an order to read files that hold secrets",
    "take-secrets": "an order to pass on secrets",
    "send-elsewhere": "an order to send data elsewhere",
    "role-play": "an order to be somebody else",
    "attack-words": "words of an attack",
    "attack-name": "the name of an attack",
    "poses-as-user": "words that pose as the user's or the system's",
    "praise": "praise of itself over other tools",
    "asks-about-model": "a question about the model or the conversation",
    "reassures": "assurances in place of what it does",
    "name-variant": "a name that another server has with another ending",
}
