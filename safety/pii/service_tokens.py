"""Tokens of further services, which their beginnings tell."""

import re
from typing import Final

_HEX: Final = "[0-9a-f]"
_ALNUM: Final = "[A-Za-z0-9]"
_WORD: Final = r"[A-Za-z0-9_\-]"
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

#: Service, how its tokens begin, what of them follows at least within a window.
_TABLE: Final = (
    ("1Password", "ops_eyJ", r"[A-Za-z0-9+/_\-]{24}"),
    ("Adafruit IO", "aio_", rf"{_ALNUM}{{28}}"),
    ("age", "AGE-SECRET-KEY-1", "[0-9A-Z]{32}"),
    ("Airtable", "pat", rf"{_ALNUM}{{14}}\.{_HEX}{{32}}"),
    ("Akamai", "akab-", "[a-z0-9]{16}-[a-z0-9]{16}"),
    ("Alibaba Cloud", "LTAI", rf"{_ALNUM}{{12}}"),
    ("Amazon Bedrock", "ABSK", "[A-Za-z0-9+/]{50}"),
    ("Amazon MWS", "amzn.mws.", _UUID),
    ("Apify", "apify_api_", rf"{_ALNUM}{{30}}"),
    ("Artifactory", "AKCp", rf"{_ALNUM}{{50}}"),
    ("Artifactory", "cmVmdGtuO", rf"{_ALNUM}{{40}}"),
    ("Asana", "1/", r"[0-9]{16}:[0-9a-f]{32}"),
    ("Atlassian", "ATATT3", r"[A-Za-z0-9_\-=]{40}"),
    ("Atlassian", "ATCTT3", r"[A-Za-z0-9_\-=]{40}"),
    ("Atlassian", "ATSTT3", r"[A-Za-z0-9_\-=]{40}"),
    ("AWS session", "FwoGZXIvYXdzE", "[A-Za-z0-9+/]{40}"),
    ("AWS session", "IQoJb3JpZ2luX2Vj", "[A-Za-z0-9+/]{40}"),
    ("Bitbucket", "ATBB", rf"{_ALNUM}{{28}}"),
    ("Bitbucket", "BBDC-", r"[A-Za-z0-9+/@_\-]{36}"),
    ("Braintree", "access_token$production$", rf"[a-z0-9]{{16}}\${_HEX}{{16}}"),
    ("Brevo", "xkeysib-", rf"{_HEX}{{48}}"),
    ("Brevo", "xsmtpsib-", rf"{_HEX}{{48}}"),
    ("Browserbase", "bb_live_", rf"{_WORD}{{24}}"),
    ("Buildkite", "bkua_", rf"{_HEX}{{40}}"),
    ("Cerebras", "csk-", "[a-z0-9]{40}"),
    ("CircleCI", "CCIPAT_", rf"{_WORD}{{40}}"),
    ("CircleCI", "CCIPRJ_", rf"{_WORD}{{40}}"),
    ("ClickUp", "pk_", r"[0-9]{5,9}_[A-Z0-9]{32}"),
    ("Clojars", "CLOJARS_", rf"{_HEX}{{50}}"),
    ("Cloudflare", "cfat_", rf"{_ALNUM}{{40}}"),
    ("Cloudflare", "cfut_", rf"{_ALNUM}{{40}}"),
    ("Cloudflare", "cfk_", rf"{_ALNUM}{{40}}"),
    ("Cloudflare", "v1.0-", rf"{_HEX}{{24}}-{_HEX}{{30}}"),
    ("Contentful", "CFPAT-", rf"{_WORD}{{40}}"),
    ("crates.io", "cio", rf"{_ALNUM}{{32}}(?!{_WORD})"),
    ("Cursor", "key_", rf"{_HEX}{{50}}"),
    ("Databricks", "dapi", rf"{_HEX}{{32}}"),
    ("dbt", "dbtc_", rf"{_WORD}{{36}}"),
    ("dbt", "dbtu_", rf"{_WORD}{{36}}"),
    ("Defined Networking", "dnkey-", "[A-Z0-9]{24}"),
    ("DigitalOcean Spaces", "DO00", "[A-Z0-9]{16}"),
    ("Docker Swarm", "SWMTKN-1-", "[a-z0-9]{48}"),
    ("Docker Swarm", "SWMKEY-1-", "[A-Za-z0-9+/]{40}"),
    ("Doppler", "dp.pt.", rf"{_ALNUM}{{40}}"),
    ("Doppler", "dp.st.", rf"(?:[a-z0-9_\-]{{2,16}}\.)?{_ALNUM}{{38}}"),
    ("Doppler", "dp.ct.", rf"{_ALNUM}{{40}}"),
    ("Doppler", "dp.sa.", rf"{_ALNUM}{{40}}"),
    ("Doppler", "dp.scim.", rf"{_ALNUM}{{40}}"),
    ("Doppler", "dp.audit.", rf"{_ALNUM}{{40}}"),
    ("Dropbox", "sl.", rf"(?:u\.)?{_WORD}{{56}}"),
    ("Duffel", "duffel_live_", rf"{_WORD}{{40}}"),
    ("Duffel", "duffel_test_", rf"{_WORD}{{40}}"),
    ("Dynatrace", "dt0", r"[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{20}"),
    ("E2B", "e2b_", rf"{_HEX}{{40}}"),
    ("EasyPost", "EZAK", rf"{_ALNUM}{{50}}"),
    ("EasyPost", "EZTK", rf"{_ALNUM}{{50}}"),
    ("ElevenLabs", "sk_", rf"{_HEX}{{48}}"),
    ("Facebook and Square", "EAA", rf"{_WORD}{{57}}"),
    ("Figma", "figd_", rf"{_WORD}{{36}}"),
    ("Figma", "figo_", rf"{_WORD}{{36}}"),
    ("Firecrawl", "fc-", rf"{_HEX}{{32}}"),
    ("Fireworks", "fw_", rf"{_ALNUM}{{22}}"),
    ("Flutterwave", "FLWSECK-", rf"{_HEX}{{30}}"),
    ("Flutterwave", "FLWSECK_TEST-", rf"{_HEX}{{12}}"),
    ("Fly.io", "fo1_", rf"{_WORD}{{40}}"),
    ("Fly.io", "fm1r_", "[A-Za-z0-9+/]{50}"),
    ("Fly.io", "fm1a_", "[A-Za-z0-9+/]{50}"),
    ("Fly.io", "fm2_", "[A-Za-z0-9+/]{50}"),
    ("Frame.io", "fio-u-", rf"{_WORD}{{50}}"),
    ("Grafana", "glc_", "[A-Za-z0-9+/]{40}"),
    ("Grafana", "glsa_", rf"{_ALNUM}{{32}}_{_HEX}{{8}}"),
    ("Groq", "gsk_", rf"{_ALNUM}{{40}}"),
    ("Harness", "pat.", rf"{_WORD}{{22}}\.{_HEX}{{24}}\.{_ALNUM}{{8}}"),
    ("Harness", "sat.", rf"{_WORD}{{22}}\.{_HEX}{{24}}\.{_ALNUM}{{8}}"),
    ("HashiCorp Vault", "hvs.", rf"{_WORD}{{24}}"),
    ("HashiCorp Vault", "hvb.", rf"{_WORD}{{24}}"),
    ("HashiCorp Vault", "hvr.", rf"{_WORD}{{24}}"),
    ("Heroku", "HRKU-", rf"{_WORD}{{36}}"),
    ("Honeycomb", "hcaik_", "[a-z0-9]{50}"),
    ("HubSpot", "pat-na", rf"[0-9]-{_UUID}"),
    ("HubSpot", "pat-eu", rf"[0-9]-{_UUID}"),
    ("IFTTT", "https://maker.ifttt.com/trigger/", r"[A-Za-z0-9_\-]{1,14}/(?:json/)?with/key/[A-Za-z0-9_\-]{5}"),
    ("Infracost", "ico-", rf"{_ALNUM}{{32}}"),
    ("Instagram", "IGQV", rf"{_WORD}{{58}}"),
    ("Jina", "jina_", rf"{_WORD}{{40}}"),
    ("K3s", "K10", rf"{_HEX}{{60}}"),
    ("Kaggle", "KGAT_", rf"{_HEX}{{32}}"),
    ("Klarna", "klarna_live_", r"[A-Za-z0-9_+/]{40}"),
    ("Klaviyo", "pk_", rf"{_HEX}{{34}}"),
    ("LangSmith", "lsv2_pt_", rf"{_HEX}{{32}}"),
    ("LangSmith", "lsv2_sk_", rf"{_HEX}{{32}}"),
    ("LaunchDarkly", "api-", _UUID),
    ("LaunchDarkly", "sdk-", _UUID),
    ("Linear", "lin_api_", rf"{_ALNUM}{{32}}"),
    ("Linear", "lin_oauth_", rf"{_ALNUM}{{32}}"),
    ("Linear", "lin_wh_", rf"{_ALNUM}{{32}}"),
    ("LlamaCloud", "llx-", rf"{_WORD}{{40}}"),
    ("Make", "https://hook.", r"[a-z]{2}[0-9]\.make\.com/[a-z0-9]{20}"),
    ("Mapbox", "sk.eyJ", rf"{_ALNUM}{{40}}"),
    ("Mercado Pago", "APP_USR-", r"[0-9]{10,16}-[0-9]{6}-[0-9a-f]{24}"),
    ("Modal", "ak-", rf"{_ALNUM}{{22}}(?!{_WORD})"),
    ("Modal", "as-", rf"{_ALNUM}{{22}}(?!{_WORD})"),
    ("Mollie and Lob", "live_", rf"{_ALNUM}{{30}}"),
    ("MongoDB Atlas", "mdb_sa_sk_", rf"{_WORD}{{36}}"),
    ("Neon", "napi_", "[a-z0-9]{40}"),
    ("Netlify", "nfp_", rf"{_ALNUM}{{36}}"),
    ("Netlify", "nfc_", rf"{_ALNUM}{{36}}"),
    ("Netlify", "nfo_", rf"{_ALNUM}{{36}}"),
    ("New Relic", "NRAK-", "[A-Z0-9]{27}"),
    ("New Relic", "NRII-", rf"{_WORD}{{25}}"),
    ("New Relic", "NRJS-", rf"{_HEX}{{19}}"),
    ("New Relic", "NRBR-", rf"{_HEX}{{19}}"),
    ("New Relic", "NRRA-", rf"{_HEX}{{40}}"),
    ("Notion", "ntn_", rf"{_ALNUM}{{40}}"),
    ("Notion", "secret_", rf"{_ALNUM}{{43}}"),
    ("NuGet", "oy2", "[a-z0-9]{43}"),
    ("Nvidia", "nvapi-", rf"{_WORD}{{50}}"),
    ("Nylas", "nyk_v0_", rf"{_ALNUM}{{40}}"),
    ("Octopus Deploy", "API-", r"[A-Z0-9]{26}(?![A-Za-z0-9])"),
    ("Okta", "00", r"(?=[A-Z0-9_\-]{0,30}[a-z])(?=[a-z0-9_\-]{0,30}[A-Z])[A-Za-z0-9_\-]{40}(?![A-Za-z0-9_\-])"),
    ("OneSignal", "os_v2_app_", "[a-z0-9]{50}"),
    ("OpenShift", "sha256~", rf"{_WORD}{{43}}"),
    ("PagerDuty", "u+", r"(?=[A-Z0-9_\-]{0,12}[a-z])(?=[a-z0-9_\-]{0,12}[A-Z])[A-Za-z0-9_\-]{18}(?![A-Za-z0-9_\-])"),
    ("Perplexity", "pplx-", rf"{_ALNUM}{{40}}"),
    ("Pinecone", "pcsk_", r"[A-Za-z0-9_]{50}"),
    ("Pinterest", "pina_", "[A-Z0-9]{56}"),
    ("Plaid", "access-sandbox-", _UUID),
    ("Plaid", "access-production-", _UUID),
    ("PlanetScale", "pscale_tkn_", r"[A-Za-z0-9_\-=.]{32}"),
    ("PlanetScale", "pscale_pw_", r"[A-Za-z0-9_\-=.]{32}"),
    ("PlanetScale", "pscale_oauth_", r"[A-Za-z0-9_\-=.]{32}"),
    ("PostHog", "phc_", rf"{_ALNUM}{{40}}"),
    ("PostHog", "phx_", rf"{_ALNUM}{{40}}"),
    ("PostHog", "phs_", rf"{_ALNUM}{{40}}"),
    ("PostHog", "pha_", rf"{_ALNUM}{{40}}"),
    ("PostHog", "phr_", rf"{_ALNUM}{{40}}"),
    ("Postman", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{30}}"),
    ("Postman", "PMAT-", "[A-Z0-9]{26}"),
    ("Prefect", "pnu_", rf"{_ALNUM}{{36}}"),
    ("Prefect", "pnb_", rf"{_ALNUM}{{36}}"),
    ("Pulumi", "pul-", rf"{_HEX}{{40}}"),
    ("Razorpay", "rzp_live_", rf"{_ALNUM}{{14}}"),
    ("Razorpay", "rzp_test_", rf"{_ALNUM}{{14}}"),
    ("ReadMe", "rdme_", "[a-z0-9]{50}"),
    ("Render", "rnd_", rf"{_ALNUM}{{28}}"),
    ("Replicate", "r8_", rf"{_ALNUM}{{34}}"),
    ("Resend", "re_", rf"{_ALNUM}{{8}}_{_ALNUM}{{24}}"),
    ("RubyGems", "rubygems_", rf"{_HEX}{{40}}"),
    ("RunPod", "rpa_", "[A-Z0-9]{36}"),
    ("Salesforce", "00D", rf"{_ALNUM}{{12,15}}!A{_WORD}{{30}}"),
    ("Scaleway", "SCW", "[A-Z0-9]{17}"),
    ("Sentry", "sntrys_", r"[A-Za-z0-9+/=_]{40}"),
    ("Sentry", "sntryu_", rf"{_HEX}{{40}}"),
    ("Shippo", "shippo_live_", rf"{_HEX}{{40}}"),
    ("Shippo", "shippo_test_", rf"{_HEX}{{40}}"),
    ("Snyk", "snyk_", r"[a-z]{3}\.[A-Za-z0-9_.\-]{30}"),
    ("SonarQube", "squ_", rf"{_HEX}{{40}}"),
    ("SonarQube", "sqp_", rf"{_HEX}{{40}}"),
    ("SonarQube", "sqa_", rf"{_HEX}{{40}}"),
    ("Sourcegraph", "sgp_", rf"(?:{_HEX}{{16}}_|local_)?{_HEX}{{40}}"),
    ("Square", "sq0atp-", rf"{_WORD}{{20}}"),
    ("Square", "sq0csp-", rf"{_WORD}{{36}}"),
    ("Stytch", "secret-live-", rf"{_WORD}{{30}}"),
    ("Stytch", "secret-test-", rf"{_WORD}{{30}}"),
    ("Supabase", "sbp_", rf"(?:v0_)?{_HEX}{{40}}"),
    ("Supabase", "sb_secret_", rf"{_WORD}{{24}}"),
    ("Tailscale", "tskey-", r"[a-z]{3,8}-[A-Za-z0-9\-]{24}"),
    ("Tavily", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9_\-]{24}"),
    ("Tencent Cloud", "AKID", rf"{_ALNUM}{{32}}"),
    ("Together", "tgp_v1_", rf"{_WORD}{{40}}"),
    ("Trello", "ATTA", rf"{_HEX}{{50}}"),
    ("Twitch", "oauth:", r"[a-z0-9]{30}(?![A-Za-z0-9])"),
    ("Twitter", "AAAAAAAAAAAAAAAAAAAAA", r"[A-Za-z0-9%]{40}"),
    ("Typeform", "tfp_", r"[A-Za-z0-9_.=\-]{40}"),
    ("Vercel", "vcp_", rf"{_ALNUM}{{40}}"),
    ("Vercel", "vci_", rf"{_ALNUM}{{40}}"),
    ("Vercel", "vca_", rf"{_ALNUM}{{40}}"),
    ("Vercel", "vcr_", rf"{_ALNUM}{{40}}"),
    ("Vercel", "vck_", rf"{_ALNUM}{{40}}"),
    ("Vercel", "vercel_blob_rw_", rf"{_WORD}{{36}}"),
    ("VK", "vk1.a.", rf"{_WORD}{{56}}"),
    ("Voyage", "pa-", rf"{_WORD}{{40}}"),
    ("Weights & Biases", "wandb_v1_", r"[A-Za-z0-9_]{40}"),
    ("WooCommerce", "ck_", rf"{_HEX}{{40}}"),
    ("WooCommerce", "cs_", rf"{_HEX}{{40}}"),
    ("WunderGraph", "cosmo_", rf"{_HEX}{{32}}"),
    ("xAI", "xai-", rf"{_ALNUM}{{50}}"),
    ("Yandex", "y0_", rf"{_WORD}{{40}}"),
    ("Yandex", "t1.", rf"{_WORD}{{50}}"),
    ("Yandex Cloud", "AQVN", rf"{_WORD}{{35}}"),
    ("Zapier", "https://hooks.zapier.com/hooks/catch/", r"[0-9]{4,10}/[a-z0-9]{5}"),
)  # fmt: skip
#: Service, form, for those whose beginning is random.
_INNER: Final = (
    ("DeepL", rf"{_UUID}:fx(?![A-Za-z0-9_])"),
    ("HashiCorp Terraform", rf"{_ALNUM}{{14}}\.atlasv1\.{_WORD}{{30}}"),
    ("Mailchimp", rf"{_HEX}{{32}}-us[0-9]{{1,3}}(?![A-Za-z0-9_])"),
    ("Mailgun", rf"{_HEX}{{32}}-{_HEX}{{8}}-{_HEX}{{8}}(?![A-Za-z0-9_\-])"),
    ("RapidAPI", r"[a-z0-9]{10}msh[a-z0-9]{15}p1[a-z0-9]{6}jsn[a-z0-9]{12}"),
    ("Microsoft Entra", r"[A-Za-z0-9_~.\-]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,34}"),
)
#: Where those begin.
INNER_PLACES: Final = (
    r"[A-Za-z0-9]{14}\.atlasv1\.|[0-9a-f]{32}-(?:us|[0-9a-f]{8}-)|[A-Za-z0-9_~.\-]{3}[0-9]Q~|"
    r"[a-z0-9]{10}msh[a-z0-9]{15}p1|[0-9a-f]{8}-[0-9a-f\-]{27}:fx"
)


def _spelled(beginnings: list[str]) -> str:
    """An expression of these beginnings, in which each letter is looked at once."""
    by_first: dict[str, list[str]] = {}
    for beginning in beginnings:
        by_first.setdefault(beginning[:1], []).append(beginning[1:])
    if "" in by_first:
        return ""
    branches = [re.escape(first) + _spelled(rest) for first, rest in by_first.items()]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


#: Where PLACE looks for them.
PLACES: Final = f"{_spelled([row[1] for row in _TABLE])}|{INNER_PLACES}"
#: What those are that their beginnings tell, for Hyperscan.
SPELLED: Final = tuple(
    f"{re.escape(beginning)}{re.sub(r'[(][?][=!].*?[)]', '', form)}" for _, beginning, form in _TABLE
)
#: What every text has in which there is one.
ROUGH: Final = (
    *SPELLED,
    rf"\.atlasv1\.|{_HEX}{{31}}-us[0-9]|{_HEX}{{31}}-{_HEX}{{8}}-{_HEX}{{8}}|[0-9]Q~[A-Za-z0-9_~.\-]{{31}}"
    r"|msh[a-z0-9]{15}p1|[0-9a-f]{12}:fx",
)

_FORMS: Final[dict[str, re.Pattern[str]]] = {
    first: re.compile(
        "|".join(
            [f"{re.escape(beginning)}(?:{form})" for _, beginning, form in _TABLE if beginning[0] == first]
            + [f"(?:{form})" for _, form in _INNER]
        )
    )
    for first in {row[1][0] for row in _TABLE}
}
_OTHERS: Final = re.compile("|".join(f"(?:{form})" for _, form in _INNER))

#: What such a token goes on with.
TOKEN_RUN: Final = re.compile(r"[A-Za-z0-9_\-+/=]*")


def token_at(view: str) -> int:
    """The end of what is certain of a token that a view begins with, or 0."""
    found = _FORMS.get(view[0], _OTHERS).match(view)
    if found is None:
        return 0
    token = found.group()
    run = TOKEN_RUN.match(view, found.end())
    whole = view[: run.end()] if run is not None else token
    if len(set(token[3:])) < 8 or token[3:].isalpha() or not _DIGIT.search(whole) or _WORDED.match(token):
        return 0
    return found.end()


_DIGIT: Final = re.compile(r"[0-9]")
#: Words and numbers between hyphens or underscores.
_WORDED: Final = re.compile(r"[A-Za-z]+(?:[.\-_]+(?:[A-Z]?[a-z]+|[0-9]{1,4})(?![A-Za-z0-9])){3,}")
