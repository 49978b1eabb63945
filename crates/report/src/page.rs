//! The page: one file without references to others. Its script reads the records that stand behind it.

/// The start of a page.
pub(crate) const START: &str = concat!(
    include_str!("page/head.html"),
    "<style>\n",
    include_str!("page/page.css"),
    "</style>\n",
    include_str!("page/body.html"),
    "<script>\n\"use strict\";\naddEventListener(\"DOMContentLoaded\", () => {\n",
    include_str!("page/elements.js"),
    include_str!("page/data.js"),
    include_str!("page/timeline.js"),
    include_str!("page/kernels.js"),
    include_str!("page/sections.js"),
    include_str!("page/page.js"),
    "});\n</script>\n",
);

/// A record as an element of the page.
pub(crate) fn element(json: &str) -> String {
    // A name must not end the element.
    let json = json.replace('<', "\\u003c");
    format!("<script type=\"application/json\">{json}</script>\n")
}
