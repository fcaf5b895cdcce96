"""A dangerous name is recognised however it is dressed."""

# ruff: noqa: RUF001 - look-alike letters are the data of this module

import pytest

from cannery.messages.role import Role
from cannery.roles.dangerous import DANGEROUS_NAMES, DANGEROUS_WORDS, find_dangerous_name
from cannery.roles.vocabularies import ALIASES, VOCABULARIES


@pytest.mark.parametrize(
    "name",
    [
        *("admin", "root", "superuser", "administrator", "sudo", "owner", "operator", "moderator"),
        *("god", "God", "god_mode", "godmode", "G O D", "g.o.d", "god1", "sysop", "superadmin"),
        *("Admin", " ADMIN ", "super_user", "Super User", "super-user", "super.user", "sUpErUsEr"),
        *("system_admin", "root_user", "the root", "admin2", "a-d-m-i-n", "r o o t"),
        *("adm1n", "r00t", "@dmin", "5ud0", "SUPERU$ER"),
        *("ＲＯＯＴ", "𝐚𝐝𝐦𝐢𝐧", "ⓐⓓⓜⓘⓝ", "ᴀᴅᴍɪɴ", "ádmïn"),
        *("аdmin", "rооt", "аdmіn", "ROOТ", "рrivileged", "οwner"),
        *("adm\u200bin", "ro\u00adot", "\u202eadmin", "ad\ufeffmin", "adm\u3164in"),
    ],
    ids=ascii,
)
def test_dangerous_name_is_found(name):
    assert find_dangerous_name(name) in DANGEROUS_NAMES + DANGEROUS_WORDS


@pytest.mark.parametrize(
    "name",
    [
        *("advisor", "customer", "helper", "tool_result", "narrator", "用户", "пользователь", ""),
        *("godot", "goddess", "teacher", "instructions", "model", "moderate"),
        *(role.value for role in Role),
        *ALIASES,
        *(name for each in VOCABULARIES.values() for name in (*each.readings, *each.tolerated)),
    ],
    ids=ascii,
)
def test_harmless_name_is_not(name):
    assert find_dangerous_name(name) is None
