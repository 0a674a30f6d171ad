"""Secrets of each kind, and what only looks like one."""

import pytest

from safety.match import Match, merged
from safety.pii.kinds import PERSONAL, SECRETS
from safety.pii.pii_filter import PiiFilter

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
password|Das Passwort lautet: «Geheim123»,
password|mot de passe : «Azerty123!x»
password|密码：«Abc12345»。
password|<password>«hunter22»</password>
generic_secret|api_key = "«a1b2c3d4e5f6g7h8i9j0»"
generic_secret|client_secret: «8Q~~abcDEF123456ghijkl»
generic_secret|Authorization: My-Scheme «Mtgznzu4Odk5Nji4Mtywnzq1xx»
generic_secret|export AUTH_TOKEN=«abcd-1234-efgh-5678»
generic_secret|api key: «0123456789abcdef0123456789abcdef»
password|keytool -list -storepass «andr01d-otter»
generic_secret|Cookie: lang=fr; sessionid=«ywx617zkx2xpb742o89rzfb7r97hqav0»; theme=dark
generic_secret|Cookie: session=«0e15899b11860c921ad2c6af6d95fb14»
service_token|the value here «6d10f35970d13a48f1b763357840fc18-78~d1fa01-41312f12» end
penstock_key|«s~k-penstock-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN-_123»
aws_access_key|AWS_ACCESS_KEY_ID=«AK~IA1089EXAMPLE01890»
google_api_key|MAPS_KEY = "«AI~zaSyD-9tSrke72PouQMnMX-a7eZSW0jkFM»"
gitlab_token|--token «gl~rt-abcDEF123456ghiJKL78» --executor docker
gitlab_token|«GR~1348941abcDEF123456ghiJKL78»
twilio_key|«S~K0123456789ABCDEF0123456789ABCDEF»
service_token|-u me:«ATA~TT3xFfGF0abcdefghijklmnopqrstuvwxyz0123456789_-ABCDEFGHIJKLMNOPQRSTUVWXYZ=0A1B2C3D» https
service_token|«ATB~Babcdefghijklmnopqrstuvwx01234567»
service_token|"«xke~ysib-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef-abcDEF0123456789»"
service_token|«CLO~JARS_0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab»
service_token|«da~pi0123456789abcdef0123456789abcdef»
service_token|«dp.p~t.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG»
service_token|«dt0~c01.ABCDEFGHIJKLMNOPQRSTUVWX.ABCDEFGHIJKLMNOPQRSTUVWX234567ABCDEFGHIJKLMNOPQRSTUVWXYZ»
service_token|«fi~gd_abcdefghijklmnopqrstuvwxyz-0123456789_AB»
service_token|«gl~sa_abcdefghijklmnopqrstuvwxyz012345_01234567»
service_token|«gs~k_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOP»
service_token|VAULT_TOKEN=«hv~s.abcdefghij0123456789klmnopqrstuvwxyz»
service_token|token = "«abcDEFGHIJ0123.atl~asv1.abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnop»"
service_token|«HR~KU-01234567-89ab-cdef-0123-456789abcdef»
service_token|«ls~v2_pt_0123456789abcdef0123456789abcdef_0123456789»
service_token|«li~n_api_abcdefghijklmnopqrstuvwxyz0123456789ABCD»
service_token|«nf~p_abcdefghijklmnopqrstuvwxyz0123456789»
service_token|«NR~AK-ABCDEFGHIJKLMNOPQRSTUVWX012»
service_token|auth: '«nt~n_01234567890abcdefghijklmnopqrstuvwxyzABCDEFGHI»'
service_token|push Foo.nupkg -k «oy~2abcdefghijklmnopqrstuvwxyz0123456789abcdefg» -s
service_token|«pp~lx-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL»
service_token|«PM~AK-0123456789abcdef01234567-0123456789abcdef0123456789abcdef01»
service_token|«r8~_abcdefghijklmnopqrstuvwxyz0123456789A»
service_token|«rub~ygems_0123456789abcdef0123456789abcdef0123456789abcdef»
service_token|sonar.login=«sq~u_0123456789abcdef0123456789abcdef01234567»
service_token|«sq~0atp-abcdefghijklmn01234567»
service_token|«sb~p_0123456789abcdef0123456789abcdef01234567»
service_token|«tv~ly-dev-abcdefghij012345klmnopqrstuvwx»
service_token|«xa~i-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijkl»
service_token|«AGE-SEC~RET-KEY-1ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGHIJKLMNOPQRSTUV»
service_token|«SWM~TKN-1-0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefgh-0123456789abcdefghijklmno»
service_token|mailchimp: «0123456789abcdef0123456789abcdef-u~s12»
service_token|«LT~AIabcdefGH0123456789»
url_credentials|rediss://«default:pabcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef»@host:12380
password|CREATE ROLE x LOGIN PASSWORD '«ab12-Cdef-3gHi»';
password|CREATE USER x IDENTIFIED BY '«s3cret!Word»'
password|redis-server --requirepass «sesd11qiq78v6rtz»
password|username admin privilege 15 password 0 «R3pe4ter!»
password|enable password «d0wn-low-33»
password|snmp-server community «r3adm0re» RO
password|--user master --password «dipAb137Gg!»
password|sshpass -p '«Basalt;44Fern»' scp x
password|mysql -h db1 -u root -p'«W4ltz+Wirbel»' wordpress
password|curl -u admin:«dG9rZW4g7» https://example.com
password|required username=\"svc\" password=\"«6Q0VfUOd+OSY»\";
password|define( 'DB_PASSWORD' , '«2Arh5dA1Sn0ywiVY»' );
password|setopt(curl, CURLOPT_PASSWORD, "«KiAS7RCRi2GFLP»");
password|val password: String = "«exord13Qaw64»"
password|<add key="Mail.Password" value="«Kiosk77!dotter»" />
generic_secret|curl --token «a8Fh2kLm9QwXz41B» https://example.com
generic_secret|CUSTOMER_KEY=«2ce4A702b52E5217d49ace138ab0»
generic_secret|/geocode?q=Graz&key=«ms57dibdpyp2o5meoo2diworof2411»&x=1
generic_secret|<add key="PayPal.Secret" value="«EpcoxeygoKDNlk9I7y6efQMo»" />
generic_secret|?sv=2022-11-02&sr=b&sig=«9HTFAhD6usyzbEb34Fe1lhAZOl3x-6jod99T6agJzsJ%3D»
generic_secret|define("API_TOKEN", "«a8Fh2kLm9QwXz41Bb7Cc»");
password|1015  mysql -u reports -p«Zebra2Crossing» sales
password|  password            = "«jZKPT6pt7mrrZzDW7ixU»"
password|MARIADB_ROOT_PASSWORD: «toor-but-longer»
password|mdp_postgres: "«Hirondelle.1789»"
password|CREATE LOGIN etl WITH PASSWORD = N'«Extract;Load!3»'
password|ALTER USER sistema IDENTIFIED BY «caipirinha_42»;
password|username netadmin privilege 15 password 7 «05AE0CC14DB46F9C38»
password|ALTER USER 'reporting'@'%' IDENTIFIED BY '«9vLq-Tarn-Osprey»';
password|<Password><Value>«Adm1n!Kiosk2022»</Value></Password>
password|"--user","lenz","--pass","«mohnBlume_41xq»","--tls"
telegram_bot_token|https://api.telegram.org/bot«5139734755:AAoW5TpvxsEoMQqXl_wfYv_JJuUdu2ydiGJ»/sendMessage
password|docker login registry.example.com -u robot-ci -p «TWTkMPwWoVY3FyVPIs8IMDiZknvF»
password|ldapsearch -D "cn=svc,dc=haldor,dc=local" -w '«B1ndung!sSache»' -b x
password|WIFI:T:WPA;S:Studio;P:«paintbrush1in-turps»;H:false;;
generic_secret|the recovery key is «334178-080730-329520-382607-919296-843092-596976-362755».
generic_secret|Authorization: Splunk «040c41d5-520b-4f66-ac99-0711144f54bd»
service_token|zap trigger -> «https://hooks.zapier.com/hooks/catch/4722052/j8dlmh6/» ;
service_token|Token ist «1/8676830726842633:b21363a157630a277792162e78b0afc0», Projekt
service_token|produção é «APP_USR-3512277149326025-272628-5999ed5b8a04fac2998c64ad8495b3ba-441018660». Alguém
service_token|«https://haldor.webhook.office.com/webhookb2/eb84e2b5-ef74-496f@dc926509/IncomingWebhook/15894718d6»
password|redis-cli -h cache -a «VZ3SkTZiJm5htt6csuET» FLUSHDB
password|<input name="password" type="password" value="«moonPie!44»">
password|- name: DB_PASSWORD\n      value: "«9vTg-kpl!Q2»"
password|PIN: «7316», Login
password|{"card_pin": "«0412»"}
password|pin-code: «12345».
generic_secret|- name: DD_API_KEY\n      value: "«611d5cca488f730331c3e915976b397b»"
service_token|yandex = «y0~_AgAAAAL_xsIuQw8lgUAXQM8NRVesM5VVYRTXu5s8uwVk4dss-wy5c»
huggingface_token|hf token is «hf~_lOavKUusEkJDRriHVwpaQuptvLDJUzUfqm» and
generic_secret|const WEATHER_API_KEY: &str = "«c3a350380b3e31b4f6f2e544a06b7347»";
generic_secret|var signingKey = []byte("«u2zM9g17GiUMnrQrovExQjMcNyqYIM55a3NyUDAR»")
generic_secret|chiave_segreta: "«a1489c73280f4ffde36b3e62256c0479»"
generic_secret|const config = { cle_api: "«tng0cnqwfeoxutacwcckjuuso2hysxiwt9mcp8ro»" }
generic_secret|ключ API: «a8Fh2kLm9QwXz41Bb7Cc»
generic_secret|set-cookie: connect.sid=«s%3AL8-4NVFoXLYDsHiijzQ53QH09unHZHGJ.KzTzXzqLZWug7pHAt»; Path=/
basic_auth|Authorization: Basic «aW52ZW50b3J5X3N5bmM6cThSdzJ6TG0wNQ==» here
password|psk="«sycamore*Ninety-two»"
password|define('DB_PASSWORD', '«u)8Kf{tZ2w-Lq»');
password|"sfPassword" -> "«zephyr^kiln2024q»"
password|unzip -P «Zayit!Gesher38» a.zip
password|Parole: «Dzintars77»
password|رمز عبور: «Damavand!77»
generic_secret|ALIYUN_SK = "«RCkpuHWFlwtfsoQqfzc3jNxDzyEvET»"
password|wpa-psk «otterlamp2024»
password|enable secret «Otter#2024»
password|crypto isakmp key «Otter#2024» address peer
service_token|«pk~_8b0e7153bf7c3706d85c524e440066559a»
service_token|«pk~_82823574_F0K70T9RBMK2LOLC4OKDIHUL4M9C03WY»
service_token|«sd~k-fa644d35-db41-d94e-5efa-f89fc43c5fa5»
service_token|«oau~th:o5s4yykqt5q0but5sj4bh2psciza48»
service_token|«rzp~_live_jBLIZdeUor0fYe»
service_token|«access~_token$production$ohis2jll0kenc9gy$2813c40d2affbb1494978278947bec54»
service_token|«liv~e_TbPvfKQcf3hGMDpy4DE9ugYHbIUyd2»
service_token|«AP~I-X7CNLZEGCCLMMC54WA14T1U33G»
service_token|«00D~8mlSGOzmIof7!AQOnlujBc4T_2WqbN5CorN9lHZOqqk8Fk2FJh-FgzKVmj1OWaKqd4scg2InWqP»
service_token|«c~k_d4b6ab0553854edd3aae7ed5e15ff034d16017fb»
service_token|«gxgemnuxl3m~shfpz83yahxia5yvep15sbh4wjsnmvyjs5fhs0ve»
service_token|«05d284ba-6492-933c-b9bf-e74800c47f10:f~x»
service_token|«https://hook.eu1.ma~ke.com/gk3visqlzbfhwbiqjg38sz3m8m7cr0fh»
generic_secret|AZURE_DEVOPS_EXT_PAT=«rq96iwobw8yhscvzo2ek5j0z2tkbixunp4mykzvbx20hlgzw5pdb»
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
The password must be at least 8 characters, see the password policy v2; reset your password in step3.
Password length is 12chars, the password manager 1Password7, password hashes sha256, a password with AES256 or SHA-512.
The password is bcrypt12, it was set to 12-character words. Password changed on 2024-05-06 at 10:30:45.
The token is 12345678, the token limit is 8k-tokens-per-minute, key figures 2023/2024, key event group-of-20-countries.
the password for user1234, password_v2 and userPassword2 and PASSWORD_2; a password in users2.db or http://x1.test/
primary key is 8bb49988-2a04-42bc-8e53-bcb6db48891f and public key AAAAB3NzaC1yc2EAAAADAQABAAABAQC7
cache_key = "users-2024-01-01-page-000000012", idempotency-key: 4bf92f3577b34da6a3ce929d0e0e4736
AccountSid=AC0123456789abcdef0123456789abcdef, docker run -u 1000:1000 and -u user:group
postgres://USER:PASSWORD@HOST:5432/DBNAME https://user:pass@host/ http://localhost:8080/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
db_password: ENC[AES256_GCM,data:Odqci5X1fJ0=] and password=vault:secret/data/app2#key and token: op://vault1/item2/field
arn:aws:secretsmanager:eu-central-1:123456789012:secret:prod/stripe/key-Kw4hhM
secret_name_of_the_service_that_is_long_enough_to_match1 and figd_ and glsa_ and dapi and key_of_the_table_1
["password", "address2"], ("token", "next_token_field_name2"), setAttribute("password", "newPassword2")
DB_PASSWORD=${DB_PASSWORD:?must be set} and secret_id = "prod/orders/db-password"
"private_key_id": "bba452e102d2225fcce2ecdca6c8e2b4c6f5c79e"
AWS_SECRET_ACCESS_KEY=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
I am root / admin on v2beta1, and the deploy user / s3 bucket; the password is 2-factor-protected
CONTRASENA=tu_contraseña_aqui, aws_secret_access_key = ****************7Qx2, TOKEN_ID: t814480hxwgk
Works on Ubuntu / CentOS7 and postgres / TimescaleDB2; Go to Admin / Reports2024; in-app password: have your team read
gpg: using key 74B01581375BD1CCE199F0286B41BE62C71F0644; password max age = 90days1
data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbXSwibmFtZXMiOltdLCJtYXBwaW5ncyI6IiJ9abcdefgh
STRIPE_SECRET_KEY=sk_live_xxxxxxxxxxxxxxxxxxxxxxxx
We pass Float32Array to the shader and pass utf8mb4_bin here; pass "Content2Type9x"
monkey 3f2a1b9c4d5e6f708192a3b4, hockey=3f2a1b9c4d5e6f708192a3b4; commit key 3f2a1b9c4d5e6f708192a3b4
the token is 0x6B175474E89094C44Da98b954EedeAC495271d0F; etag key d41d8cd98f00b204e9800998ecf8427e
mutation Login($email: String!, $password: String!) { login } export const TOKEN_KEY = "auth.accessToken";
{"password": "Passwort", "new_password": "Neues Passwort", "sifre": "Şifre", "confirmPassword": "确认密码"}
<assemblyIdentity name="Newtonsoft.Json" publicKeyToken="30ad4fe6b2a6aeed" />
{"password": "รหัสผ่าน"}; let x = env.get("DB_PASSWORD").unwrap(); let y = map["password"].clone1();
password_hash = abc123def456x, password_field: passwd2field, $pwd = ConvertTo-SecureString
Connecting to postgres://app:***@db:5432/app; Client("AC51970280231af6c537119140131327cf", token)
The key fingerprint is SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8. Should I say yes?
button.connect("clicked", "onClick2Handler"); auth.login("oauth2", "google-oauth2-v3Token"); users: 100 / group7Bx
#define PASS_COLOR "#ff00aa1x" and #define PWM_PIN "GPIO12aa"; samples were identified by PCR-RFLP16S
password: !vault and PWD=/home/bob1 and passwd = sys.argv[1]; the wifi password is on page3b, password to server12x
crank pin: 4500 rpm, gpio_pin: 1017, Clevis pin: 12345, please pin: 2024 roadmap, Recovery code: 0xc0000225
Shader pass is RGBA16F format, Low pass is 80Hz-120Hz, the first pass is pass1_main
PIN: 560001, led_pin: 13, pin: GPIO4, spin: 4411, PIN_COUNT=1234, pin: 7316A
apiKey: 'API-Schlüssel', palabras clave: COVID-19x, 5G
docker run -u app1:group2a img; chown -u alice:staff2x /srv
secret-test-coverage-report-for-module-12-final and sl.wikipedia-org-page-of-the-year-1991-2024
TWILIO_ACCOUNT_SID=AC51970280231af6c537119140131327cf
cache key d41d8cd98f00b204e9800998ecf8427e and sid=main-page-section-number-2
The password is case-sensitive-only and the token is long-lived-token; password: must-not-be empty
mkdir -p Dir-Name1 && docker run -p 8080:80 x; echo "Release-2024_final!x" | sudo tee /etc/motd
parole: 1523, Il candidato ha scritto 500 parole: 12 errori; on parole 2019-05-06 after 5years; parole: all'inizio
clave primaria: Tabla-Cliente_01; la clave del éxito en 2024 es COVID-19; Gesellschaft: GmbH-2024
The Wi-Fi "Guest-Net" key features: self-healing-mesh; Wi-Fi key: ask-the-owner please
$user->password->hash2, user.password->encode_v2, password -> hash2x
gpg:                using EDDSA key E08B4865DAD1B8E3151939C422268F0CAAB6A743
{"ak": "state-of-alaska-number-12345x", "sk": "Slovakia-2024-region-list1"}; bot.run("schedule_daily_report_2024_v1")
the password reset for Ticket#2024 and Issue#1234 and Order#20240; users pass Content2Type9x on; user bob passes 2to3x
openssl version -a; auth = ("cookie", "same_site_2"); isakmp policy 10a; secret --value-type int32array
risk = "a1b2c3d4e5f6a7b8c9d0e1f2", task: "7f3a9c0e1b2d4f5a6978"
password (min. 8 chars), password (Base64-encoded), Passwort (mind. 8-Zeichen)
api-gateway-service-prod and sdk-for-android-2024-release and live_streaming_of_the_event_number_12345678
pk_live_users_table and ck_editor5_build_classic_version_3 and as-well-as-those-2 and API-REFERENCE2024GUIDE
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


def test_a_key_as_putty_writes_it() -> None:
    key = "Private-Lines: 2\nmYPBWJUR4euVdRXYIshlsOKtSeWxJRAenEsrvOjM\nEqsf/z2t9Omj38k2WlBqahXRcV0A5WXeBd==\n"
    (found,) = FILTER.scan(f"Public-Lines: 1\nAAAA\n{key}-MAC: 71ecd3da87a")
    assert (found.label, found.end - found.start) == ("private_key", len(key))


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


@pytest.mark.parametrize("between", [", ", '",\n\t"'])
def test_the_other_half_of_a_pair_needs_no_name(between: str) -> None:
    key, other = "AK" + "IA4QHYTO5NAUAHBQ43", "N7zrRnlkfaHeDqPuAuK4RYoElHqegbAO/7hFXO72"
    text = f'id {key}{between}{other}"'
    assert [text[m.start : m.end] for m in FILTER.scan(text)] == [key, other]


def test_secrets_without_personal_data_and_the_reverse() -> None:
    text = "password: bob@example.com1x and al@example.com"
    assert {m.label for m in PiiFilter(SECRETS).scan(text)} == {"password"}
    assert {m.label for m in PiiFilter(PERSONAL).scan(text)} == {"email"}
    assert len(PiiFilter(PERSONAL).scan(text)) == 2
