use super::*;
use crate::results::tests::results;
use serde_json::json;

fn page() -> Page {
    let runs = [1, 2].map(|procs| {
        json!({"mode": "<b>&amp;</b>", "procs": procs, "off_0": 0.001, "off_f": 0.002, "total_wall_clock_s": 1.0})
    });
    report("Results of \"A\" & <B>", &[results(&runs)]).unwrap()
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let html = page().html;
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&html, options).unwrap();
    for node in document.descendants() {
        for attribute in node.attributes().filter(|one| ["href", "src"].contains(&one.name())) {
            assert!(attribute.value().starts_with('#'), "{attribute:?}");
        }
        assert!(!["link", "img", "iframe"].contains(&node.tag_name().name()));
    }
    let url = |text: &str| text.matches("://").count();
    assert_eq!(
        url(&html),
        url(&html.replace("http://www.w3.org/", "")) + html.matches("http://www.w3.org/").count()
    );
    assert_eq!(url(&html.replace("http://www.w3.org/", "")), 0);
}

#[test]
fn every_figure_is_there_with_its_sentence_and_buttons() {
    let page = page();
    assert_eq!(page.figures.len(), 2);
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page.html, options).unwrap();
    let figures: Vec<_> =
        document.descendants().filter(|node| node.tag_name().name() == "figure").collect();
    for (node, figure) in figures.iter().zip(&page.figures) {
        assert_eq!(node.attribute("id"), Some(figure.id.as_str()));
        let of =
            |name: &str| node.descendants().filter(|one| one.tag_name().name() == name).count();
        assert_eq!((of("svg"), of("figcaption"), of("button")), (1, 1, 2));
    }
    let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(ids.len(), distinct.len());
}

#[test]
fn text_of_files_is_never_markup() {
    let html = page().html;
    assert!(!html.contains("<b>") && !html.contains("<9>"));
    assert!(html.contains("&lt;b&gt;&amp;amp;&lt;/b&gt;"));
    assert!(html.contains("abacus &lt;9&gt; &amp; co"));
    assert!(html.contains("<h1>Results of &quot;A&quot; &amp; &lt;B&gt;</h1>"));
}

#[test]
fn numbers_and_settings_are_all_there() {
    let html = page().html;
    for text in ["<td class=\"n\">100</td>", "<dt>seed</dt>", "<dd>S1</dd>", "1970-01-01 00:00 UTC"]
    {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn days_are_those_of_the_calendar() {
    let known = [
        (0, "1970-01-01 00:00 UTC"),
        (951_782_400, "2000-02-29 00:00 UTC"),
        (951_868_800, "2000-03-01 00:00 UTC"),
        (1_735_689_599, "2024-12-31 23:59 UTC"),
        (1_798_761_599, "2026-12-31 23:59 UTC"),
    ];
    for (seconds, text) in known {
        assert_eq!(machine::date(seconds), text);
    }
}
