//! A page's Markdown as HTML: headings get anchors, links lead to pages of the site, and what is wider than the window
//! scrolls.
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::BTreeMap;

/// A page as HTML, and what the search finds in it.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) html: String,
    pub(crate) sections: Vec<Section>,
}

/// From a heading to the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) heading: String,
    /// Empty above the first heading.
    pub(crate) anchor: String,
    pub(crate) text: String,
}

/// A heading's anchor, as code hosts derive it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || [' ', '-', '_'].contains(it));
    kept.flat_map(char::to_lowercase).map(|it| if it == ' ' { '-' } else { it }).collect()
}

/// Anchors of a page so far: the second heading of the same words gets a number.
#[derive(Debug, Default)]
pub struct Anchors(BTreeMap<String, u32>);

impl Anchors {
    /// Of the next heading.
    pub fn next(&mut self, heading: &str) -> String {
        let anchor = anchor(heading);
        let count = self.0.entry(anchor.clone()).or_default();
        *count += 1;
        match *count {
            1 => anchor,
            count => format!("{anchor}-{}", count - 1),
        }
    }
}

/// `target` says where a link leads on the site; `None`: nowhere, so that its text is left.
pub(crate) fn body(markdown: &str, mut target: impl FnMut(&str) -> Option<String>) -> Body {
    let events: Vec<Event<'_>> = Parser::new_ext(markdown, Options::ENABLE_TABLES).collect();
    let mut writer =
        Writer { body: Body::default(), out: Vec::new(), anchors: Anchors::default(), tables: 0 };
    writer.body.sections.push(Section::default());
    let mut dropped = 0u32;
    let mut at = 0;
    while at < events.len() {
        match &events[at] {
            Event::Start(Tag::Heading { .. }) => at = writer.heading(&events, at, &mut target),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match target(dest_url) {
                None => dropped += 1,
                Some(url) => writer.out.push(Event::Start(Tag::Link {
                    link_type: *link_type,
                    dest_url: url.into(),
                    title: title.clone(),
                    id: id.clone(),
                })),
            },
            // Links do not nest.
            Event::End(TagEnd::Link) if dropped > 0 => dropped -= 1,
            Event::Start(Tag::Table(_)) => {
                writer.table(is_short(&events, at));
                writer.out.push(events[at].clone());
            }
            other => writer.event(other.clone(), &mut target),
        }
        at += 1;
    }
    html::push_html(&mut writer.body.html, writer.out.into_iter());
    writer.body
}

struct Writer<'a> {
    body: Body,
    out: Vec<Event<'a>>,
    anchors: Anchors,
    tables: usize,
}

impl<'a> Writer<'a> {
    /// Writes the heading that starts here, and returns where it ends.
    fn heading(
        &mut self,
        events: &[Event<'a>],
        start: usize,
        target: &mut impl FnMut(&str) -> Option<String>,
    ) -> usize {
        let is_end = |event: &Event<'_>| matches!(event, Event::End(TagEnd::Heading(_)));
        let end = start + events[start..].iter().position(is_end).unwrap_or(events.len() - start - 1);
        let text: String = events[start..end].iter().filter_map(words).collect();
        let anchor = self.anchors.next(&text);
        let Event::Start(Tag::Heading { level, .. }) = &events[start] else { return end };
        self.out.push(raw(format!("<{level} id=\"{anchor}\">")));
        for event in &events[start + 1..end] {
            // A heading is no link.
            if !matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link)) {
                self.plain(event.clone(), target);
            }
        }
        self.out.push(raw(format!("</{level}>\n")));
        self.body.sections.push(Section { heading: text, anchor, text: String::new() });
        end
    }

    /// Begins what a table scrolls in.
    fn table(&mut self, is_short: bool) {
        self.tables += 1;
        let class = if is_short { "scroll short" } else { "scroll" };
        let name = format!("table {}", self.tables);
        self.out.push(raw(format!(
            "<div class=\"{class}\" role=\"group\" aria-label=\"{name}\" tabindex=\"0\">"
        )));
    }

    fn event(&mut self, event: Event<'a>, target: &mut impl FnMut(&str) -> Option<String>) {
        if let (Some(words), Some(section)) = (words(&event), self.body.sections.last_mut()) {
            section.text.push_str(&words);
        }
        // What follows a word within a line belongs to it.
        if matches!(&event, Event::End(end) if !is_inline(*end))
            && let Some(section) = self.body.sections.last_mut()
        {
            section.text.push(' ');
        }
        self.plain(event, target);
    }

    fn plain(&mut self, event: Event<'a>, target: &mut impl FnMut(&str) -> Option<String>) {
        match event {
            // Markers.
            Event::Html(text) | Event::InlineHtml(text) if text.trim_start().starts_with("<!--") => {}
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let dest_url = target(&dest_url).map_or(dest_url, CowStr::from);
                self.out.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            Event::End(TagEnd::Table) => self.out.extend([Event::End(TagEnd::Table), raw("</div>\n".into())]),
            Event::Start(Tag::CodeBlock(kind)) => {
                let class = match &kind {
                    CodeBlockKind::Fenced(name) if &**name == "text" => " class=\"wide\"",
                    _ => "",
                };
                self.out.push(raw(format!("<pre{class} tabindex=\"0\"><code>")));
            }
            Event::End(TagEnd::CodeBlock) => self.out.push(raw("</code></pre>\n".into())),
            other => self.out.push(other),
        }
    }
}

fn is_inline(end: TagEnd) -> bool {
    matches!(end, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image)
}

/// Cells of at most so many letters are figures and names: they stay on their lines.
const SHORT: usize = 40;

/// Has the table that starts here only short cells?
fn is_short(events: &[Event<'_>], start: usize) -> bool {
    let mut length = 0;
    for event in &events[start..] {
        match event {
            Event::End(TagEnd::Table) => return true,
            Event::Start(Tag::TableCell) => length = 0,
            event => length += words(event).map_or(0, |text| text.chars().count()),
        }
        if length > SHORT {
            return false;
        }
    }
    true
}

fn raw<'a>(text: String) -> Event<'a> {
    Event::Html(text.into())
}

/// What a reader reads in it.
fn words(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(text.to_string()),
        Event::SoftBreak | Event::HardBreak => Some(" ".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(markdown: &str) -> Body {
        body(markdown, |link| (!link.starts_with("no")).then(|| link.replace(".md", ".html")))
    }

    #[test]
    fn headings_get_anchors_and_sections() {
        let page =
            page("top\n\n# The `sim`, 4 [CPUs](x.md)\n\nwords and\n`code`\n\n## Limits\n\n## Limits\n");
        assert!(
            page.html.contains("<h1 id=\"the-sim-4-cpus\">The <code>sim</code>, 4 CPUs</h1>"),
            "{}",
            page.html
        );
        assert!(page.html.contains("<h2 id=\"limits-1\">Limits</h2>"), "{}", page.html);
        let sections: Vec<_> = page.sections.iter().map(|it| (it.anchor.as_str(), it.text.trim())).collect();
        assert_eq!(
            sections,
            [("", "top"), ("the-sim-4-cpus", "words and code"), ("limits", ""), ("limits-1", "")]
        );
    }

    #[test]
    fn links_and_pictures_lead_to_the_site_or_nowhere() {
        let html = page("[a](b.md#c) [d](no.md) ![e](f.svg)\n").html;
        assert_eq!(html, "<p><a href=\"b.html#c\">a</a> d <img src=\"f.svg\" alt=\"e\" /></p>\n");
    }

    #[test]
    fn markers_are_gone_and_what_is_wide_scrolls() {
        let html = page(
            "it is <!-- results: time -->1 s<!-- /results -->.\n\n<!-- results: table -->\n| a |\n|---|\n| b<br>c |\n\
             <!-- /results -->\n\n```text\n<x> & y\n```\n",
        )
        .html;
        assert!(html.starts_with("<p>it is 1 s.</p>") && !html.contains("<!--"), "{html}");
        assert!(html.contains("aria-label=\"table 1\" tabindex=\"0\"><table>"), "{html}");
        assert!(html.contains("b<br>c") && html.contains("</table>\n</div>"), "{html}");
        assert!(html.contains("class=\"scroll short\""), "{html}");
        let long = page(&format!("| a |\n|---|\n| {} |\n", "word ".repeat(20))).html;
        assert!(long.contains("class=\"scroll\""), "{long}");
        assert!(
            html.contains("<pre class=\"wide\" tabindex=\"0\"><code>&lt;x&gt; &amp; y\n</code></pre>"),
            "{html}"
        );
    }
}
