//! Text in pages and pictures.

/// Text of XML and HTML. Control characters but tabs are not allowed in it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            control if control.is_control() && control != '\t' => {
                out.extend(control.escape_debug());
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escaped("a<b> & \tc\u{1b}"), "a&lt;b&gt; &amp; \tc\\u{1b}");
    }
}
