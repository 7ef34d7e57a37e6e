"""Template tags."""

from __future__ import annotations

import json

from predictions.templatetags.forecast_tags import figures_script, source_badge


def test_no_text_leaves_the_block_of_figures():
    figures = {"hover": ["</script><script>alert(1)</script>", "a & b"]}
    tag = figures_script(figures)
    body = tag.removeprefix('<script id="figures" type="application/json">').removesuffix(
        "</script>"
    )
    assert not set("<>&") & set(body)
    assert json.loads(body) == figures


def test_a_badge_links_to_what_its_source_means():
    assert source_badge("benchmark+regression") == (
        '<a class="badge badge-benchmark-regression" href="/accuracy/#benchmark-regression">'
        "benchmark+regression</a>"
    )
    assert source_badge(None) == ""
