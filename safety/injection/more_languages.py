"""Cues in Czech, Swedish, Danish, Greek, Hebrew, Persian, Vietnamese, Indonesian, Thai, Ukrainian and more."""

from typing import Final

from safety.injection.cues import Table
from safety.injection.english import OVERRIDE, REVEAL
from safety.injection.english_agents import EXTRACT, INDIRECT
from safety.injection.english_personas import FORGED, PERSONA, REFUSAL

MORE: Final = Table("more")
add = MORE.add

add(
    OVERRIDE,
    0.7,
    "ignoruj|zapomeň|zapomen|zapomeňte|ignorujte|zabudni|nevšímej",
    r"[^\W_]{5,12} ~2(?:všechn\w*|předchoz\w*|předešl\w*|dosavadn\w*|predchádz\w*|své|tvoje|"
    r"všetk\w*) ~2(?:pokyn\w*|instrukc\w*|pravidl\w*|příkaz\w*|inštrukci\w*)",
)
add(
    OVERRIDE,
    0.7,
    "ignorera|glöm|strunta i|bortse från|ignorer|glem|se bort fra|ignoroi|unohda|jätä huomiotta",
    r"[^\W_]{3,9}(?: (?:i|från|bort fra|huomiotta))? ~2(?:alla|tidigare|föregående|alle|tidligere|forrige|kaikki|"
    r"aiemmat|edelliset|dina|dine|ovan\w*) ~2(?:instruktion\w*|regler\w*|anvisning\w*|instruks\w*|ohjeet|ohjeesi|"
    r"säännöt|direktiv\w*|order|kommandon)",
)
add(
    OVERRIDE,
    0.7,
    "αγνόησε|αγνοήστε|ξέχνα|ξέχασε|παράβλεψε",
    r"[^\W_]{5,12} ~3(?:προηγούμεν\w*|παραπάνω|σου|αρχικ\w*|όλες|όλους|πριν) ~2(?:οδηγί\w*|εντολ\w*|κανόν\w*)",
)
add(
    OVERRIDE,
    0.7,
    "התעלם|התעלמי|התעלמו|שכח|תשכח|תתעלם|שכחי",
    r"[^\W_]{3,8}.{0,20}(?:הוראות|ההוראות|הנחיות|ההנחיות|כללים|הכללים|הפקודות|מה שנאמר)",
)
add(
    OVERRIDE,
    0.7,
    "دستور|دستورات|دستورهای|قوانین|راهنما|تعلیمات|ہدایات",
    r"[^\W_]{4,10}.{0,26}(?:نادیده|فراموش|نظرانداز|بھول)",
)
add(
    OVERRIDE,
    0.7,
    "bỏ qua|quên đi|quên hết|quên tất cả|phớt lờ|không tuân theo",
    r".{6,12}?.{0,14}(?:hướng dẫn|chỉ dẫn|chỉ thị|quy tắc|lệnh|hạn chế|nguyên tắc)",
)
add(
    OVERRIDE,
    0.7,
    "abaikan|lupakan|jangan ikuti|acuhkan|hiraukan",
    r"[a-z]{5,9}(?: ikuti)? ~2(?:instruksi|perintah|aturan|arahan|petunjuk|pedoman|batasan)\b",
)
add(
    OVERRIDE,
    0.7,
    "ละเว้นคำสั่ง|ไม่ต้องสนใจคำสั่ง|เพิกเฉยต่อคำสั่ง|ลืมคำสั่ง|ลืมกฎ|เพิกเฉย|ละเลยคำสั่ง|มองข้ามคำสั่ง|ละเว้นกฎ|ไม่ทำตามคำสั่ง|ข้ามคำสั่ง",
)
add(
    OVERRIDE,
    0.7,
    "ігноруй|забудь|проігноруй|ігноруйте|ігнаруй",
    r"[^\W_]{5,11} ~3(?:попередні\w*|усі|всі|свої|вище|папярэдні\w*) ~2(?:інструкці\w*|вказівк\w*|правил\w*|"
    r"команд\w*|налаштуван\w*|указан\w*|інструкцы\w*)",
)
add(
    OVERRIDE,
    0.7,
    "ignoră|uită|uita|ignora|zanemari|ignoriraj|hagyd figyelmen kívül|felejtsd el|игнорирай|забрави",
    r"[^\W_]{4,12}(?: figyelmen kívül| el)? ~2(?:toate|anterioare|precedente|prethodne|sve|összes|korábbi|előző|"
    r"всички|предишни|az|a)? ?~2(?:instrucțiuni\w*|regul\w*|upute|uputstva|instrukcije|utasítás\w*|szabály\w*|"
    r"инструкции|указания|правила)",
)
add(
    OVERRIDE,
    0.7,
    "উপেক্ষা|முந்தைய|మునుపటి|puuza|kalimutan|balewalain|huwag sundin",
    r".{5,14}.{0,24}(?:নির্দেশ|வழிமுறை|సూచన|maagizo|tagubilin|panuto|utos|instruksyon)?",
)
add(
    REVEAL,
    0.5,
    "systemprompt|systémový prompt|systémovou zprávu|systeemprompt|οδηγίες συστήματος|הנחיית המערכת|הנחיות המערכת|"
    "پرامپت سیستم|دستورالعمل سیستم|prompt hệ thống|lời nhắc hệ thống|prompt sistem|instruksi sistem|พรอมต์ระบบ|"
    "คำสั่งระบบ|системний промпт|promptul de sistem|rendszerprompt|системния промпт|system prompt σου|systémový",
    r".{6,24}",
    r"(?:visa|vis|näytä|ukaž|zobraz|vypiš|δείξε|δείξτε|הצג|תראה|הראה|نشان|بگو|cho tôi xem|hiển thị|in ra|tampilkan|"
    r"tunjukkan|beritahu|แสดง|บอก|покажи|afișează|arată|mutasd|покажете|skriv|show|print|što|koji|какъв|vad är|"
    r"hvad er|hva er|jaký je|ποιο).{0,24}$",
)
add(REVEAL, 0.5, "پرامپت سیستم|پرامپت|system prompt", r".{4,20}(?:را|رو)? ?.{0,10}(?:نشان|بگو|بنویس|نمایش|چیست)")

_SHOW_DE = (
    r"\b(?:wiederhol\w*|zeig\w*|gib|nenn\w*|druck\w*|schreib\w*|zitier\w*|ausgeben|verrat\w*|was steht|kopier\w*|"
    r"lies)\b"
)
add(
    REVEAL,
    0.5,
    "vor meiner|über dieser nachricht|vor dieser nachricht|oberhalb dieser|zu beginn dieses|am anfang dieses|"
    "vor diesem chat|über meiner nachricht",
    "",
    None,
    (_SHOW_DE, r"\b(?:text\w*|alles|wort\w*|nachricht|satze?|inhalt|zeilen|anweisung\w*)\b"),
)
add(
    REVEAL,
    0.5,
    "avant ce message|avant mon|au-dessus de ce|au-dessus de mon|au début de cette|au début de la conversation|"
    "ci-dessus mot pour mot|avant notre",
    "",
    None,
    (
        r"\b(?:repete\w*|montre\w*|affiche\w*|ecri\w*|recopie\w*|donne\w*|dis|cite\w*|imprime\w*|quel\w*)\b",
        r"\b(?:texte|tout|mots?|contenu|consignes|instructions|phrases?|lignes|message)\b",
    ),
)
add(
    REVEAL,
    0.5,
    "mensaje de sistema|mensaje del sistema|mensagem de sistema|mensagem do sistema|messaggio di sistema|"
    "message système|message de système|antes de este mensaje|antes de mi|encima de este|antes desta mensagem|"
    "acima desta|prima di questo messaggio|sopra questo messaggio|al principio de esta|no início desta|"
    "all'inizio di questa|prompt de sistema|prompt do sistema|prompt di sistema|prompt del sistema",
    "",
    None,
    (
        r"\b(?:muestra\w*|muestrame|mostra\w*|mostre|repit\w*|repet\w*|ripeti|escrib\w*|escrev\w*|scrivi|dime|diga|"
        r"dimmi|imprim\w*|stampa|copi\w*|cual|qual|affiche\w*|montre\w*|ensena\w*|revela\w*|completo)\b",
    ),
)
add(
    REVEAL,
    0.5,
    "nad tą wiadomością|przed tą wiadomością|powyżej tej|przed moją|na początku tej rozmowy|до моего сообщения|"
    "до этого сообщения|перед моим|выше этого|перед этим сообщением|в начале этого|в начале разговора|"
    "в начале диалога",
    "",
    None,
    (
        r"\b(?:powtorz\w*|pokaz\w*|wypisz\w*|napisz\w*|wyswietl\w*|podaj\w*|повтори\w*|выведи\w*|покажи\w*|"
        r"напиши\w*|процитир\w*|перескажи\w*|что|co)\b",
        r"\b(?:wszystko|tekst\w*|slow\w*|tresc\w*|текст\w*|все|слов\w*|инструкц\w*|сообщени\w*|instrukcj\w*|"
        r"сказано|написано)\b",
    ),
)
add(
    REVEAL,
    0.5,
    "这条消息之前|本消息之前|我的消息之前|这句话之前|上面的全部|上面所有|以上的全部|对话开始|對話開始|"
    "这条消息以上|此消息之前",
    "",
    None,
    ("(?:重复|重複|复述|输出|輸出|显示|打印|告诉|写出|列出|逐字|抄写|翻译)",),
)
add(
    REVEAL,
    0.5,
    "このメッセージより前|これより前|この会話の最初|上に書かれ|会話の冒頭|このメッセージの上|最初に与えられ",
    "",
    None,
    ("(?:繰り返|表示|出力|教え|書い|コピー|見せ|引用|要約)",),
)
add(
    REVEAL,
    0.5,
    "처음에 받은|이 메시지 이전|이 메시지 위|대화 시작|위에 있는 내용|받은 지침|주어진 지침|받은 지시|이 대화의 처음",
    "",
    None,
    ("(?:출력|보여|반복|말해|알려|적어|써|공개|복사)",),
)
add(
    REVEAL,
    0.5,
    "التي تلقيتها|قبل هذه الرسالة|قبل رسالتي|فوق هذه الرسالة|في بداية المحادثة|في بداية هذه",
    "",
    None,
    (r"(?:اكتب|اعرض|كرر|اطبع|اظهر|اخبرني|اعطني|انسخ|ما)", r"(?:النص|تعليمات|للتعليمات|كل|الكلمات|الرسالة)"),
)
add(
    REVEAL,
    0.5,
    "इस संदेश से पहले|मेरे संदेश से पहले|बातचीत की शुरुआत|ऊपर लिखा",
    "",
    None,
    ("(?:दोहराओ|दोहराएं|दिखाओ|दिखाएं|लिखो|लिखें|बताओ|प्रिंट)",),
)
add(EXTRACT, 0.5, "密码是什么|密码告诉我|保护的密码|隐藏的密码|秘密密码|保护的秘密|秘密是什么", r".{4,6}")
add(
    EXTRACT,
    0.5,
    "senha secreta|contraseña secreta|password segreta|mot de passe secret|geheime passwort|geheimes passwort|"
    "tajne hasło|секретный пароль|gizli şifre|gizli parola|秘密のパスワード|비밀 암호|كلمة السر السرية",
    "",
    None,
    (
        r"(?:\b(?:qual|cual|quale|quel|was|wie|jakie|какой|скажи|dime|diga|dimmi|dis|sag\w*|nenn\w*|podaj|revela|"
        r"guarda\w*|conta\w*|verrat\w*|nedir|soyle)\b|教え|알려|ما)",
    ),
)
_BOT_NAMES = (
    r"(?:ki|ia|ii|ai|ии|sztucznej inteligencji|assistente?|asistente|assistant|assistenten|asystent\w*|"
    r"ассистент\w*|chatbot|yapay zeka|modell?|modele|modelo|modello|sprachmodell\w*|助手|人工知能|アシスタント|"
    r"어시스턴트)"
)
add(
    INDIRECT,
    0.5,
    "hinweis an|hinweis für|nachricht an|anweisung an|anweisung für|note pour|note à|message pour|"
    "instruction pour|nota para|aviso para|mensaje para|instrucción para|nota per|messaggio per|nota per l'|"
    "istruzione per|mensagem para|instrução para|uwaga dla|notatka dla|instrukcja dla|примечание для|"
    "сообщение для|инструкция для|заметка для|opmerking voor|bericht aan|instructie voor|not:|not al asistente|"
    "not für die",
    r"[^\W_]{3,12}[\W_]{1,2}(?:an|fur|pour|a|para|per|dla|для|voor|aan) ~2" + _BOT_NAMES + r"\b",
)
add(
    INDIRECT,
    0.5,
    "给ai|给 ai|給ai|致ai|ai助手的提示|ai助手：|ai助手:|给人工智能|aiへの|aiアシスタントへ|ai 어시스턴트에게|"
    "ai에게|للذكاء الاصطناعي|لمساعد الذكاء|एआई के लिए|ai के लिए|人工智能助手",
    r".{2,12}",
    None,
    (
        "(?:提示|指示|忽略|不要|无视|注意|無視|命令|メモ|무시|지시|메모|ملاحظة|تجاهل|नोट|अनदेखा|必须|必ず|회신|"
        "回复|しないで)",
    ),
)
add(
    FORGED,
    0.45,
    "system:|system :|système :|système:|sistema:|sistema :|система:|系统:|系统：|システム:|システム：|시스템:|"
    "النظام:|systeem:|sistem:|सिस्टम:",
    r"[^\W_]{2,8} ?[:：].{0,50}?(?:administrator\w*|administrateur|administrador|amministratore|администратор\w*|"
    r"abgeschaltet|desactiv\w*|disattiv\w*|deaktivier\w*|отключ\w*|管理员|管理者|관리자|مسؤول|yonetici|beheerder|"
    r"verifiziert|verifie|verificado|abgeschalten|aufgehoben|解除|禁用|停用|关闭|無効|해제|फिल्टर|filtr\w*|"
    r"sicherheits\w*)",
    r"(?:^|[\n\[<({=*#:.!?\"'|>-])[\W_]{0,4}$",
)
add(
    REFUSAL,
    0.3,
    "darfst nicht ablehnen|nicht ablehnen|keine warnungen|keine warnhinweise|ohne warnung|fang an mit|beginne mit|"
    "beginne deine antwort|ne refuse pas|ne refuse jamais|sans avertissement|commence par|no puedes negarte|"
    "no te niegues|sin advertencias|sin disculpas|pedir disculpas|empieza con|non puoi rifiutare|senza avvertenze|"
    "não podes recusar|não pode recusar|sem avisos|nie możesz odmówić|bez ostrzeżeń|не отказывайся|"
    "не можешь отказать|без предупреждений|nie odmawiaj|reddedemezsin|uyarı yapma|不能拒绝|不许拒绝|不要警告|"
    "拒否してはいけ|警告なし|거절하지 마|경고 없이|لا ترفض|بدون تحذيرات",
)
add(
    OVERRIDE,
    0.45,
    "richtlinien|regeln|vorgaben|anweisungen|sicherheitsregeln|einschränkungen|filter",
    r"[^\W_]{5,18}",
    r"\b(?:deine\w*|eure\w*|ihre\w*|du bekommen|dir gegeb\w*|alle) (?:\w{3,14} ){0,2}$",
    (
        r"\b(?:ausser acht|außer acht|hinweg|abgeschaltet|ignorier\w*|vergiss|vergessen|vergesse|umgeh\w*|beiseite|"
        r"missacht\w*|auszer|aufgehoben|abschalt\w*|ausschalt\w*|deaktivier\w*|nicht (?:mehr )?(?:halten|beachten|"
        r"befolgen|gelten))\b",
    ),
)
add(
    OVERRIDE,
    0.35,
    "reglas|regras|regole|règles|instrucciones|instruções|istruzioni|consignes|filtros|filtri|filtres|"
    "restricciones|restrizioni|directives|directrices|límites|limites",
    r"[^\W_]{5,13}",
    r"\b(?:tus|tes|vos|tuas|suas|sus|le tue|as tuas|las|les|le|tous les|todos los|todas las|os|as|i) (?:\w{3,12} )?$",
    (
        r"\b(?:olvid\w*|oubli\w*|esquec\w*|dimentic\w*|ignor\w*|desactiv\w*|disattiv\w*|desativ\w*|laisse\w*|"
        r"deja\w*|contourn\w*|elud\w*|bypass\w*|mets|suspend\w*|leve|saltat\w*|viola\w*|rompe)\b",
        r"\b(?:te dieron|t.ont|on t.a|que te|te han|te deram|ti hanno|que recebeste|ricevut\w*|securite|seguridad|"
        r"sicurezza|seguranca|tus|tes|tue|tuas|suas|sistema|systeme|moderation|a partir de ahora|desormais|"
        r"d.ora in poi)\b",
    ),
)
add(
    OVERRIDE,
    0.45,
    "zasadach|zasady|zasad|instrukcje|instrukcjach|polecenia|правила|правил|инструкции|указания|ограничения|фильтры",
    r"[^\W_]{5,13}",
    None,
    (
        r"\b(?:zapomnij|zignoruj|ignoruj|odrzuc|omin|nie przestrzegaj|zlam|забудь\w*|игнориру\w*|отключи\w*|нарушь|"
        r"обойди|не соблюдай|не следуй)\b",
        r"\b(?:ktore dostales|twoje|swoje|wczesniej|otrzymane|poprzedni\w*|systemow\w*|твои|свои|которые тебе|"
        r"которые ты|данные тебе|прежни\w*|системн\w*|tylko moje|только мои|только меня)\b",
    ),
)
add(
    OVERRIDE,
    0.35,
    "solo mis órdenes|lo que yo diga|únicamente lo que yo|tylko moje polecenia|только мои команды|только меня|"
    "nur auf mich|nur meine befehle|nur noch mir|seulement à moi|uniquement mes ordres|solo i miei ordini|"
    "só as minhas ordens|只听我的|只服从我|私の命令だけ|내 명령만|sadece benim",
)
add(
    OVERRIDE,
    0.45,
    "收到的规则|收到的指令|你的规则|你的限制|你的准则|你的规定|你的原则|用户的要求|用户要求|所有规则|所有限制",
    "",
    None,
    ("(?:忘记|忘掉|忽略|无视|不要理会|抛开|放弃|违反|绕过|关闭|不用遵守|别管|跳过|解除)",),
)
add(
    PERSONA,
    0.4,
    "yapay zeka|yapay zekâ|bir asistan",
    r"[^\W_]{3,6} [^\W_]{3,8}",
    None,
    (
        r"\b(?:kurali|kurallari|filtresi|siniri|sinirsiz|kisitlama\w*|sansursuz|ahlak\w*|etik\w*)\b",
        r"\b(?:olmayan|yok|olmadan|gibi davran|hicbir|tanimayan)\b",
    ),
)

add(
    OVERRIDE,
    0.5,
    "regeln|anweisungen|vorgaben|richtlinien|was vorher gesagt|was bisher gesagt|was zuvor gesagt",
    r"[^\W_]{3,12} (?:vorher |bisher |zuvor )?(?:gesagt )?(?:wurde )?[\W_]{0,2}~2(?:ungultig|nicht mehr|aufgehoben|"
    r"zu befolgen|hinfallig|egal|ausser kraft)\b",
)
add(
    OVERRIDE,
    0.45,
    "vergiss|vergesst|ignorier|missacht|brich|umgeh",
    r"(?:vergiss|vergesst|ignorier\w*|missacht\w*|brich|umgeh\w*) ~1(?:deine[nr]?|eure|ihre) ~1(?:regeln|"
    r"richtlinien|vorgaben|anweisungen|grenzen|filter|programmierung|einschrankungen|instruktionen|moral)",
)
add(
    REVEAL,
    0.5,
    "system-prompt|systemprompt|prompt|anweisungen|instruktionen",
    r"[^\W_]{6,13}(?:[\W_]prompts?)?",
    r"\b(?:was|welche\w*|alles)\b.{0,24}\bin (?:deine\w*|ihre\w*) $",
)
add(
    REVEAL,
    0.4,
    "im wortlaut|wortwörtlich|wort für wort",
    "",
    r"\b(?:prompt|anweisung\w*|instruktion\w*|regeln|text)\b.{0,24}$",
)
add(
    REVEAL,
    0.5,
    "au-dessus|ci-dessus|arriba|acima|qui sopra|sopra|más arriba|plus haut",
    "",
    r"\b(?:repete\w*|repite|repita|ripeti|montre\w*|affiche\w*|imprime\w*|muestra\w*|copia\w*|copie\w*|mostra\w*|"
    r"stampa|ecris|escribe|escreva|scrivi|recopie)\b.{0,12}\b(?:tout|todo|tudo|tutto|texte?|texto|testo|palabras|"
    r"mots|parole|palavras)\b.{0,30}$",
)
add(
    OVERRIDE,
    0.45,
    "oubli|olvid|dimentic|esquec|esqueç|ignor",
    r"(?:oubli\w*|olvid\w*|dimentic\w*|esque[cç]\w*|ignor\w*) (?:tes|tus|le tue|as tuas|suas|as suas|tuas|sus|vos|"
    r"teus|tuoi|i tuoi) ~1(?:regles|reglas|regole|regras|filtres|filtros|filtri|limites|limiti|limitaciones|"
    r"instructions|instrucciones|istruzioni|instrucoes|consignes|restricciones|restrizioni|restricoes|"
    r"programmation)\b",
)
add(
    OVERRIDE,
    0.5,
    "tout ce qu|tout ce que",
    r"tout ce qu.{0,26}(?:auparavant|avant|precedemment|dit)\b",
    r"\b(?:oubli\w*|ignor\w*)\W{0,3}$",
)
add(
    OVERRIDE,
    0.5,
    "забудь|игнорируй|нарушь|забудьте|zapomnij|ignoruj",
    r"(?:забудь\w*|игнорируй\w*|нарушь\w*|zapomnij|ignoruj) ~1(?:про |о )?(?:свои\w*|твои\w*|swoich|swoje|"
    r"o swoich) ~1(?:правил\w*|инструкц\w*|ограничен\w*|zasad\w*|instrukc\w*|regulach|ograniczen\w*)",
)
add(
    REVEAL,
    0.5,
    "системный промпт|системный промт|системная инструкция|prompt systemowy|системные инструкции",
    "",
    r"\b(?:у тебя|твой|каков\w*|какой|какие|jaki|покажи|дай|выведи)\b.{0,20}$",
)
add(
    OVERRIDE,
    0.45,
    "ignorier|vergiss|missacht",
    r"(?:ignorier\w*|vergiss|missacht\w*) (?:bitte |einfach |jetzt )?(?:den|die|das) ~1(?:text|dokument|artikel|"
    r"aufgabe|frage|inhalt|kontext|vorherige|obige|tabelle)\b(?! (?:von|der|des))",
)
add(
    PERSONA,
    0.45,
    "dan$",
    r"dan\b",
    r"\b(?:du bist|tu es|eres|sei|voce e|ты|jestes|sen|je bent|du heisst|actua como|agis comme|spiele|"
    r"jij bent)\b(?: (?:jetzt|nun|maintenant|ahora|agora|ora|adesso|теперь|teraz|artik|nu))? $",
)
add(
    OVERRIDE,
    0.4,
    "забудь|игнорируй|забудьте|игнорируйте|ignoruj|zapomnij",
    r"[^\W_]{6,13} (?:о |про |об )?~1(?:инструкци\w*|правила\w*|указани\w*|instrukcj\w*|zasad\w*|polece\w*)\b",
)
add(
    OVERRIDE,
    0.4,
    "oublie les|oubliez les|ignore les|ignorez les|olvida las|olvida los|ignora las|ignora los|ignora le|"
    "dimentica le|ignore as|esqueça as|ignorez toutes|ignora todas",
    r"[^\W_]{5,9} [^\W_]{2,6} (?:instructions|consignes|regles|instrucciones|reglas|istruzioni|regole|instrucoes|"
    r"regras|directives)\b(?! (?:de|del|du|di|da|do|dans|en)\b)",
)
add(
    REVEAL,
    0.45,
    "was wurde dir|was hat man dir|was haben sie dir|was hast du für|welche anweisungen hast|"
    "welche instruktionen hast|wie wurdest du|que t'a-t-on dit|que te dijeron|cosa ti hanno detto|"
    "что тебе сказали|co ci powiedziano",
    "",
    None,
    (
        r"\b(?:gesagt|mitgeteilt|aufgetragen|anweisung\w*|instruktion\w*|instruiert|konfiguriert|dit|dijeron|detto|"
        r"сказали|powiedziano|erstes|anfang|bekommen|erhalten)\b",
    ),
)
