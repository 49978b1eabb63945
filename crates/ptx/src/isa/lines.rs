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
    /// Groups of which it requires a word.
    pub required: Vec<Vec<&'t str>>,
}

impl<'t> Head<'t> {
    /// Of a row; `lists` are the names and words of all lists.
    pub fn new(line: &'t str, lists: &'t [(String, String)]) -> Head<'t> {
        let mut groups = line.split_ascii_whitespace();
        let mut name = groups.next().unwrap_or("").split('.');
        let required = groups
            .take_while(|group| *group != ":")
            .filter(|group| !group.contains(['[', '>', '!', '*']));
        let words = |group: &'t str| {
            let words = group.split_once('=').map_or(group, |(_, words)| words);
            let mut found = Vec::new();
            add_words(words, lists, &mut found);
            found
        };
        Head {
            opcode: name.next().unwrap_or(""),
            opcode_words: name.collect(),
            required: required.map(words).collect(),
        }
    }
}

/// Adds the words of `a|b@8.6|$list` without their floors.
fn add_words<'t>(text: &'t str, lists: &'t [(String, String)], into: &mut Vec<&'t str>) {
    for word in text.split('|') {
        let word = word.split('@').next().unwrap_or("").trim();
        match word.strip_prefix('$') {
            Some(name) => {
                let list = lists.iter().find(|(known, _)| known == name);
                if let Some((_, words)) = list {
                    add_words(words, lists, into);
                }
            }
            None => into.push(word),
        }
    }
}
