//! The reviewed list of differences, `differences.txt`.

/// A cause of differences.
pub struct Cause {
    set: &'static str,
    /// What the drawings of its differences have in common.
    parts: Vec<&'static str>,
}

impl Cause {
    pub fn explains(&self, set: &str, difference: &str) -> bool {
        self.set == set && self.parts.iter().all(|part| difference.contains(part))
    }
}

/// The causes, one a line: `set | parts in common, by … | reason`.
pub fn causes() -> Vec<Cause> {
    let lines = include_str!("differences.txt").lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut columns = line.split(" | ");
            let mut column = || {
                columns
                    .next()
                    .expect("a set, its parts in common, a reason")
            };
            let (set, parts, _reason) = (column(), column(), column());
            Cause {
                set,
                parts: parts.split(" … ").collect(),
            }
        })
        .collect()
}
