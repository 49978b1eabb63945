//! The lists and rows of the files of the table, for the build script.

/// Those of one file, each on one line and without comments. In the file each begins at the
/// start of a line and continues on indented lines.
pub fn lines(text: &str) -> impl Iterator<Item = String> {
    let mut rows: Vec<String> = Vec::new();
    for line in text.lines() {
        let part = line.trim();
        if part.is_empty() || part.starts_with('#') {
            continue;
        }
        match rows.last_mut() {
            Some(row) if line.starts_with([' ', '\t']) => row.extend([" ", part]),
            _ => rows.push(part.to_owned()),
        }
    }
    rows.into_iter()
}

/// The name and the words of a list, if a line is one.
pub fn list(line: &str) -> Option<(&str, &str)> {
    let (name, words) = line.strip_prefix('$')?.split_once(char::is_whitespace)?;
    Some((name, words.trim()))
}

/// The words of a row that tell which instructions it is for.
pub struct Head<'t> {
    /// The first word of the opcode.
    pub opcode: &'t str,
    /// The other words of the opcode.
    pub opcode_words: Vec<&'t str>,
    /// Groups of which it requires a word: those that name the words themselves.
    pub required: Vec<Vec<&'t str>>,
}

impl<'t> Head<'t> {
    pub fn new(line: &'t str) -> Head<'t> {
        let mut groups = line.split_ascii_whitespace();
        let mut name = groups.next().unwrap_or("").split('.');
        let plain = groups
            .take_while(|group| *group != ":")
            .filter(|group| !group.contains(['[', '=', '>', '!', '$', '*']));
        let word = |word: &'t str| word.split('@').next().unwrap_or("");
        Head {
            opcode: name.next().unwrap_or(""),
            opcode_words: name.collect(),
            required: plain
                .map(|group| group.split('|').map(word).collect())
                .collect(),
        }
    }
}
