"""What stands in a page as data comes out of it again, whatever it is."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ossl.html import embedded_json, page

TEXT = st.text(max_size=30) | st.sampled_from(["</script>", "<!--", "]]>", "&lt;", "\u2028", "'\""])


@given(
    st.recursive(TEXT | st.integers(), lambda some: st.lists(some) | st.dictionaries(TEXT, some))
)
def test_embedded_json_comes_back_and_cannot_end_its_element(values: object) -> None:
    text = str(embedded_json(values))
    assert json.loads(text) == values
    assert not set(text) & set("<>&\u2028\u2029")


def test_a_page_escapes_what_it_is_told_and_names_its_scripts_hash() -> None:
    text = page(
        "sort/page/page.html.jinja",
        ("sort/page/page.css",),
        ("report/page/run.js",),
        {
            "title": "<b>&\"'",
            "images": "<i>",
            "run": "<u>",
            "count": 1234,
            "left_out": 0,
            "data": embedded_json({}),
            "thumbnails": embedded_json({}),
        },
    )
    assert "<b>&" not in text
    assert "<i>" not in text
    assert "&lt;b&gt;&amp;&#34;&#39;" in text
    assert "1,234 pictures" in text
    assert "default-src &#39;none&#39;" in text
    assert text.count("script-src &#39;sha256-") == 1
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
