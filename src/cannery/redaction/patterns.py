"""Patterns of secrets: the formats of known services' keys, names of settings that contain secrets, and entropy.

A pattern with a group redacts only the group. Formats are those that the services document for secret scanning; a token
of unknown format is recognised by its alphabet, length and entropy.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

SECRET, EMAIL, HOME, CUSTOM = "secret", "email", "home", "custom"

# Services and the prefixes of their keys.
_KEYS = (
    r"sk-ant-[A-Za-z0-9_-]{16,}",
    r"sk-(?:proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,}",
    r"[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}",
    r"(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}",
    r"gh[oprsu]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abeprs]-[A-Za-z0-9-]{10,}",
    r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]+",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    r"hf_[A-Za-z0-9]{20,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[A-Za-z0-9_-]{30,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"dop_v1_[a-f0-9]{40,}",
    r"lin_api_[A-Za-z0-9]{20,}",
    r"(?:gsk|xai|pplx|r8|tvly|nvapi)[-_][A-Za-z0-9_-]{20,}",
    r"\d{8,10}:AA[A-Za-z0-9_-]{32,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"AGE-SECRET-KEY-1[A-Z0-9]{20,}",
)
_BLOCK = (
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END)[\s\S])*(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?"
)
# The names of secrets in settings, in code, in JSON and in a shell; quotes may be escaped.
_NAMES = (
    r"(?:[A-Za-z0-9]{1,40}[_-]){0,6}(?:password|passwd|passphrase|pwd|secret|api[_-]?key|apikey|access[_-]?key"
    r"|private[_-]?key|client[_-]?secret|account[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|token)"
)
_GIVEN = (
    rf"(?i:\b{_NAMES})(?:\\*[\"'])?\s*(?:=>|:=|=|:)\s*(?:\\*[\"'])?"
    r"([^\s\"'\\,;&<>(){}\[\]$*]{4,})"
)
SECRETS = (
    re.compile(_BLOCK),
    re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(_KEYS) + r")"),
    re.compile(r"(?i:\b(?:bearer|basic|token)\s+)([A-Za-z0-9._~+/=-]{16,})"),
    # A password in a URL.
    re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://[^\s/:@\"'<>]*:([^\s/@\"'<>]+)@"),
    re.compile(
        r"(?i:[?&](?:sig|signature|x-amz-signature|token|key|code|secret|password)=)([^&\s\"'<>]{8,})"
    ),
    re.compile(_GIVEN),
)
# The @ may be percent-encoded. Lengths are bounded, so that matching takes linear time.
EMAILS = re.compile(
    r"(?<![A-Za-z0-9._+-])[A-Za-z0-9](?:[A-Za-z0-9._+-]|%(?!40)){0,80}(?:@|%40)"
    r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,6}\.[A-Za-z]{2,}"
)
HOMES = (
    re.compile(r"\\+home\\+([^\\/\s\"':;,<>|]+)"),
    re.compile(r"(?:/home/|/Users/|/var/home/|/export/home/)([^/\s\"'\\:;,<>|()\[\]{}`]+)"),
    re.compile(
        r"(?i:[A-Z]:(?:\\+|/)(?:Users|Documents and Settings)(?:\\+|/))([^\\/\s\"':;,<>|]+)"
    ),
    # In the form in which agents name the folders of their projects.
    re.compile(r"(?<![A-Za-z0-9])-(?:home|Users)-([A-Za-z0-9_.]+)(?=-)"),
)
# Names in the place of a user that are not a user.
_NOBODY = {"Shared", "Public", "Default", "user", "username", "runner", "node", "$USER", "~"}
# Names whose value is always redacted.
SECRET_NAME = re.compile(
    r".*(?:password|passwd|passphrase|secret|apikey|accesskey|privatekey|accountkey|authorization|credential"
    r"|credentials|setcookie|cookie|(?:access|auth|refresh|bearer|session|id|api|bot|csrf)?token|sshkey)"
)

_TOKEN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/_=-])")
_HEX = re.compile(r"[0-9a-fA-F-]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORDS = re.compile(r"[a-z]{3,}|[A-Z][a-z]{2,}")
_PUBLIC = (
    "sha256:",
    "sha256-",
    "sha384-",
    "sha512-",
    "sha1:",
    "md5:",
    "commit ",
    "blob ",
    "tree ",
    "msg_",
)
_LEAST_BITS = 4.2
_LEAST_HEX_BITS = 3.2
_LEAST_HEX = 32


def entropy(token: str) -> float:
    """The entropy of a text in bits per character."""
    counts = Counter(token)
    return -sum(n / len(token) * math.log2(n / len(token)) for n in counts.values())


def random_tokens(text: str) -> Iterator[tuple[int, int]]:
    """The positions of tokens that look random: no words, no path, no id of a known kind."""
    for found in _TOKEN.finditer(text):
        before = text[max(0, found.start() - 8) : found.start()].lower()
        if not before.endswith(_PUBLIC) and _is_random(found[0]):
            yield found.span()


def _is_random(token: str) -> bool:
    bare = token.rstrip("=")
    if _UUID.fullmatch(bare):
        return False
    if _HEX.fullmatch(bare):
        # 40 digits are a commit hash, which is not secret.
        digits = bare.replace("-", "")
        is_long = len(digits) >= _LEAST_HEX and len(digits) != 40
        return is_long and any(map(str.isalpha, digits)) and entropy(digits) >= _LEAST_HEX_BITS
    kinds = [any(map(test, bare)) for test in (str.islower, str.isupper, str.isdigit)]
    if not all(kinds) and len(bare) < 40:
        return False
    # A token that consists of words is a path or a name.
    spelled = sum(len(word) for word in _WORDS.findall(bare))
    return spelled < len(bare) * 0.5 and entropy(bare) >= _LEAST_BITS


def is_person(name: str) -> bool:
    """Whether a home folder belongs to a person."""
    return name not in _NOBODY and not name.startswith(("$", "[", "<", "{", "%"))
