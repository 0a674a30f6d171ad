"""The kinds of personal data and secrets that are known. Light: nothing is compiled here."""

from typing import Final, NamedTuple


class Kind(NamedTuple):
    """A kind, whose name is the label of its matches."""

    name: str
    description: str
    secret: bool = False


_TABLE: Final = (
    Kind(
        "email", "E-mail addresses, international ones and simple disguises such as `name [at] example [dot] com` too"
    ),
    Kind("phone", "Phone numbers: international, in national groupings, or bare digits after a word such as `call`"),
    Kind("credit_card", "Payment card numbers with a known issuer, a right length and a right check digit"),
    Kind("iban", "Bank account numbers (IBAN) of the country's length with right check digits"),
    Kind("ip_address", "IPv4 and IPv6 addresses, except loopback, unspecified and masks"),
    Kind("us_ssn", "US social security numbers"),
    Kind("us_itin", "US individual taxpayer identification numbers"),
    Kind("uk_nino", "UK national insurance numbers"),
    Kind("uk_nhs", "UK NHS numbers"),
    Kind("ca_sin", "Canadian social insurance numbers"),
    Kind("de_tax_id", "German tax identification numbers"),
    Kind("fr_nir", "French social security numbers (NIR)"),
    Kind("es_dni", "Spanish identity numbers (DNI)"),
    Kind("es_nie", "Spanish foreigners' identity numbers (NIE)"),
    Kind("it_codice_fiscale", "Italian tax codes (codice fiscale)"),
    Kind("nl_bsn", "Dutch citizen service numbers (BSN)"),
    Kind("be_nn", "Belgian national numbers"),
    Kind("pl_pesel", "Polish PESEL numbers"),
    Kind("se_personnummer", "Swedish personal identity numbers"),
    Kind("fi_hetu", "Finnish personal identity codes"),
    Kind("dk_cpr", "Danish CPR numbers"),
    Kind("no_fodselsnummer", "Norwegian birth numbers"),
    Kind("ch_ahv", "Swiss AHV numbers"),
    Kind("at_svnr", "Austrian social insurance numbers"),
    Kind("pt_nif", "Portuguese tax numbers"),
    Kind("ie_pps", "Irish PPS numbers"),
    Kind("cz_rodne_cislo", "Czech and Slovak birth numbers"),
    Kind("ro_cnp", "Romanian CNP numbers"),
    Kind("bg_egn", "Bulgarian EGN numbers"),
    Kind("tr_tckn", "Turkish identity numbers"),
    Kind("br_cpf", "Brazilian CPF numbers"),
    Kind("ar_cuit", "Argentine CUIT and CUIL numbers"),
    Kind("cl_rut", "Chilean RUT numbers"),
    Kind("mx_curp", "Mexican CURP codes"),
    Kind("in_aadhaar", "Indian Aadhaar numbers"),
    Kind("in_pan", "Indian permanent account numbers"),
    Kind("cn_resident_id", "Chinese resident identity numbers"),
    Kind("hk_hkid", "Hong Kong identity card numbers"),
    Kind("tw_national_id", "Taiwanese identity numbers"),
    Kind("jp_my_number", "Japanese individual numbers"),
    Kind("kr_rrn", "Korean resident registration numbers"),
    Kind("au_tfn", "Australian tax file numbers"),
    Kind("sg_nric", "Singaporean NRIC and FIN numbers"),
    Kind("za_id", "South African identity numbers"),
    Kind("aws_access_key", "AWS access key ids", True),
    Kind("aws_secret_key", "AWS secret access keys, after their name", True),
    Kind("google_api_key", "Google API keys", True),
    Kind("google_oauth", "Google OAuth client secrets, access and refresh tokens", True),
    Kind("azure_storage_key", "Azure account and shared access keys, after their name", True),
    Kind("github_token", "GitHub tokens", True),
    Kind("gitlab_token", "GitLab tokens", True),
    Kind("slack_token", "Slack tokens", True),
    Kind("slack_webhook", "Slack webhook addresses", True),
    Kind("stripe_key", "Stripe keys", True),
    Kind("twilio_key", "Twilio account and key ids", True),
    Kind("sendgrid_key", "SendGrid keys", True),
    Kind("mailgun_key", "Mailgun keys", True),
    Kind("openai_key", "OpenAI keys", True),
    Kind("anthropic_key", "Anthropic keys", True),
    Kind("huggingface_token", "Hugging Face tokens", True),
    Kind("npm_token", "npm tokens", True),
    Kind("pypi_token", "PyPI tokens", True),
    Kind("docker_token", "Docker Hub tokens", True),
    Kind("digitalocean_token", "DigitalOcean tokens", True),
    Kind("shopify_token", "Shopify tokens", True),
    Kind("telegram_bot_token", "Telegram bot tokens", True),
    Kind("discord_token", "Discord bot tokens", True),
    Kind("discord_webhook", "Discord webhook addresses", True),
    Kind("jwt", "JSON web tokens", True),
    Kind("private_key", "Private keys in PEM form, cut off ones too", True),
    Kind("bearer_token", "Tokens after `Bearer`", True),
    Kind("basic_auth", "Credentials after `Basic`", True),
    Kind("url_credentials", "User and password in an address, as in `postgres://user:password@host`", True),
    Kind("password", "Values of names such as `password`", True),
    Kind("generic_secret", "Values of names such as `api_key`, `secret` or `token`", True),
    Kind("penstock_key", "Keys of this gateway", True),
)

KINDS: Final = {kind.name: kind for kind in _TABLE}
ALL: Final = frozenset(KINDS)
SECRETS: Final = frozenset(kind.name for kind in _TABLE if kind.secret)
PERSONAL: Final = ALL - SECRETS
