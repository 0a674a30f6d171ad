"""Secrets of each kind, and what only looks like one."""

import pytest

from safety.match import Match, merged
from safety.pii.filter import PiiFilter
from safety.pii.kinds import PERSONAL, SECRETS

FILTER = PiiFilter()

# `~` is left out, so that nobody who looks for secrets takes these for real ones. Stretches are in «these».
FOUND = r"""
aws_access_key|id «AK~IAIOSFODNN7EXAMPLE» here
aws_secret_key|aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG/bPxR~fiCYEXAMPLEKEY»
aws_secret_key|"SecretAccessKey": "«wJalrXUtnFEMI/K7MDENG/bPxR~fiCYEXAMPLEKEY»"
google_api_key|key=«AI~zaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY»
google_oauth|«GOC~SPX-abcdEFGH1234ijklMNOP5678qrst»
google_oauth|«ya~29.a0AfH6SMBx1234567890abcdefghij»
azure_storage_key|AccountKey=«E8vdM02xNOcqFlqUwJPLlmEtlCDXJ1~OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==»;
github_token|«gh~p_1234567890abcdefghijklmnopqrstuvwxyz»
github_token|«github_~pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789»
gitlab_token|«gl~pat-abcDEF123456ghiJKL78»
slack_token|«xo~xb-123456789012-1234567890123-abcdefABCDEF1234567890ab»
slack_webhook|«https://hooks.sl~ack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX»
discord_webhook|«https://disc~ord.com/api/webhooks/123456789012345678/abcdefghijklmnopqrstuvwxyz»
stripe_key|«sk_~live_4eC39HqLyjWDarjtT1zdp7dc»
twilio_key|«S~K0123456789abcdef0123456789abcdef»
sendgrid_key|«S~G.abcdefghijklmnop123456.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG»
mailgun_key|«k~ey-0123456789abcdef0123456789abcdef»
openai_key|OPENAI_API_KEY=«s~k-proj-abcd1234efgh5678ijkl9012mnop3456»
anthropic_key|«s~k-ant-api03-abcdef1234567890-abcdef1234567890_abcdef»
huggingface_token|«h~f_abcdefghijklmnopqrstuvwxyz12345678»
npm_token|«np~m_abcdefghijklmnopqrstuvwxyz0123456789»
pypi_token|«py~pi-AgEIcHlwaS5vcmcCJGFiY2RlZjEyLTM0NTY»
docker_token|«dck~r_pat_abcdefghijklmnopqrstuvwxyz1»
digitalocean_token|«do~p_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef»
shopify_token|«shp~at_0123456789abcdef0123456789abcdef»
telegram_bot_token|bot «123456789:AA~HdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1»
discord_token|«MTIzNDU2Nzg5MDEyMzQ1Njc4.Gab~cdE.abcdefghijklmnopqrstuvwxyz01234567890»
jwt|«ey~JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U»
bearer_token|Authorization: Bearer «mF_9.B5f-4.1JqM1234567890»
basic_auth|Authorization: Basic «dXNlcjpwYXNzd29yZA==»
url_credentials|postgres://«admin:S3cr3t!»@db.example.com:5432/app
url_credentials|redis://«:p4ssw0rd»@localhost:6379/0
password|password: «hunter2!»
password|DB_PASSWORD=«correcthorsebattery»
password|"password": "«Tr0ub4dor&3»", "user"
password|pwd=«abc123!»&user=bob
password|my password is «Tr0ub4dor&3».
password|Das Passwort lautet: «Geheim123»,
password|mot de passe : «Azerty123!x»
password|密码：«Abc12345»。
password|<password>«hunter22»</password>
generic_secret|api_key = "«a1b2c3d4e5f6g7h8i9j0»"
generic_secret|client_secret: «8Q~~abcDEF123456ghijkl»
generic_secret|export AUTH_TOKEN=«abcd-1234-efgh-5678»
generic_secret|api key: «0123456789abcdef0123456789abcdef»
penstock_key|«s~k-penstock-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN-_123»
private_key|«-----BEGIN PRI~VATE KEY-----\nMIIEvQIBADANBg\n-----END PRI~VATE KEY-----»\n"
"""

NOTHING = """
password = os.environ["PASSWORD"]; password = getpass.getpass(); password: str = Field(...)
The password must be at least 8 characters. Password: required
password=<your-password> api_key=YOUR_API_KEY api_key=xxxxxxxxxxxxxxxx
max_tokens: 4096, token_count = 12345678, "token": 12345, primary_key=True
secret: ${{ secrets.TOKEN }} and token=$GITHUB_TOKEN and {{ vault_secret }}
api_key: Optional[str] = None; const token = await getToken(user.id);
Enter your password: ********
pass: 12 fail: 3 passed: 120
secret: "santa" and key: "ArrowLeft"
-----BEGIN CERTIFICATE----- -----BEGIN PUBLIC KEY-----
sk-learn and task-runner-2000 and npm_config_registry
ghp_ tokens start with ghp_, JWTs with eyJ
Bearer <token> or bearer authentication; basic understanding of authentication
https://<user>:<password>@host/ https://${USER}:${PASS}@host/ https://user@host/
trace 4bf92f3577b34da6a3ce929d0e0e4736 md5 d41d8cd98f00b204e9800998ecf8427e
"""


@pytest.mark.parametrize("line", FOUND.strip().splitlines())
def test_it_is_found(line: str) -> None:
    kind, marked = line.replace("~~", "\x00").replace("~", "").replace("\x00", "~").split("|", 1)
    before, _, rest = marked.partition("«")
    value, _, after = rest.partition("»")
    text = before + value + after
    assert [(m.label, text[m.start : m.end]) for m in FILTER.scan(text)] == [(kind, value)]


@pytest.mark.parametrize("line", NOTHING.strip().splitlines())
def test_nothing_is_found(line: str) -> None:
    assert FILTER.scan(line) == []


def test_every_secret_kind_has_an_example() -> None:
    assert {line.split("|")[0] for line in FOUND.strip().splitlines()} == SECRETS


PEM = "-----BEGIN RSA PRI" + "VATE KEY-----\n"
BODY = "".join(f"{'MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn' * 2}+/\n" for _ in range(20))
END = "-----END RSA PRI" + "VATE KEY-----"


@pytest.mark.parametrize(
    ("key", "rest"),
    [
        (PEM + BODY + END, "\nThanks, and bye."),
        (PEM + "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n" + BODY + END, " That is it."),
        ((PEM + BODY + END).replace("\n", "\\n"), '\\n", "x": 1'),
        ((PEM + BODY).replace("\n", " ") + END, " and more"),
        (PEM + BODY, "... (the rest is cut off)"),
    ],
)
def test_a_private_key_is_found_whole(key: str, rest: str) -> None:
    text = f"Here: {key}{rest}"
    match = FILTER.scan(text)[0]
    assert (match.start, match.label) == (6, "private_key")
    assert match.end == 6 + len(key)


def test_a_long_token_is_told_at_once_and_goes_on() -> None:
    stream = FILTER.stream()
    token = "ey" + "JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.ey" + "JzdWIi" + "a1" * 500
    told: list[Match] = []
    for place, character in enumerate(token):
        told += stream.feed(character)
        assert place + 1 - stream.open <= FILTER.window
    assert merged(told)[0].end == len(token)
    assert stream.open == len(token)
    assert list(stream.feed(" and")) == []


def test_secrets_without_personal_data_and_the_reverse() -> None:
    text = "password: bob@example.com1x and al@example.com"
    assert {m.label for m in PiiFilter(SECRETS).scan(text)} == {"password"}
    assert {m.label for m in PiiFilter(PERSONAL).scan(text)} == {"email"}
    assert len(PiiFilter(PERSONAL).scan(text)) == 2
