//! Names that compilers number through a module, such as `$L__BB12_3` in the thirteenth
//! function.
//!
//! Within a slice they are numbered anew, so that its text does not depend on the rest
//! of the module. All names of one shape change together and stay distinct, so each
//! means what it meant.

use std::fmt;

use crate::name_map::NameMap;

/// The part of a name before its number.
struct Stem {
    text: &'static str,
    /// May come between the stem and the number. Such a stem is also a name without a
    /// number: the first of its kind.
    separator: Option<&'static str>,
}

const fn stem(text: &'static str) -> Stem {
    let separator = None;
    Stem { text, separator }
}

/// None is the beginning of another.
const STEMS: [Stem; 12] = [
    // Labels: LLVM's and NVVM's, also of `-lineinfo`.
    stem("$L__BB"),
    stem("$L__tmp"),
    stem("$L__func_begin"),
    stem("$L__func_end"),
    stem("$L__info_string"),
    stem("BB"),
    stem("LBB"),
    // Variables: strings without a name, and the stack of a function.
    Stem {
        text: "$str",
        separator: Some("$"),
    },
    Stem {
        text: "_$_str",
        separator: Some("_$_"),
    },
    stem("__unnamed_"),
    stem("__local_depot"),
    // Prototypes of indirect calls.
    stem("prototype_"),
];

/// A set of stems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stems(u16);

const _: () = assert!(STEMS.len() <= 16);

impl Stems {
    pub const fn join(self, other: Stems) -> Stems {
        Stems(self.0 | other.0)
    }

    const fn has(self, stem: usize) -> bool {
        self.0 & 1 << stem != 0
    }

    /// The stem of a name that others refer to and that must stay.
    pub fn of_name(name: &str) -> Stems {
        parts(name).map_or(Stems(0), |parts| Stems(1 << parts.stem))
    }

    /// The stems of names that a range such as `BB<9>` may declare.
    pub fn of_range(prefix: &str) -> Stems {
        let stems = STEMS.iter().enumerate();
        let declared = stems
            .filter(|(_, stem)| prefix.starts_with(stem.text) || stem.text.starts_with(prefix));
        Stems(declared.fold(0, |set, (index, _)| set | 1 << index))
    }
}

/// The parts of `$L__BB12_3`.
struct Parts<'s> {
    /// The index of the stem.
    stem: usize,
    /// `$L__BB12`
    numbered: &'s str,
    /// `_3`, a number within the function, or nothing.
    rest: &'s str,
}

fn parts(name: &str) -> Option<Parts<'_>> {
    // Most names are those of registers.
    if !matches!(name.as_bytes().first()?, b'$' | b'_' | b'B' | b'L' | b'p') {
        return None;
    }
    let mut stems = STEMS.iter().enumerate();
    let (stem, behind, separator) = stems.find_map(|(index, stem)| {
        let behind = name.strip_prefix(stem.text)?;
        Some((index, behind, stem.separator))
    })?;
    let digits = separator.and_then(|separator| behind.strip_prefix(separator));
    let digits = digits.unwrap_or(behind);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let bare = separator.is_some() && behind.is_empty();
    if rest.len() == digits.len() && !bare {
        return None;
    }
    let within = rest.strip_prefix('_');
    let counted = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !rest.is_empty() && !within.is_some_and(counted) {
        return None;
    }
    let (numbered, rest) = name.split_at(name.len() - rest.len());
    Some(Parts {
        stem,
        numbered,
        rest,
    })
}

/// The new numbers of the names of a slice, in the order in which the names occur.
#[derive(Debug, Default)]
pub struct Numbers<'s> {
    /// The stems whose names stay.
    kept: Stems,
    numbers: NameMap<'s, u32>,
    next: [u32; STEMS.len()],
}

impl<'s> Numbers<'s> {
    pub fn new(kept: Stems) -> Numbers<'s> {
        Numbers {
            kept,
            ..Numbers::default()
        }
    }

    /// The new name of a numbered one; `None` for any other name.
    pub fn renamed(&mut self, name: &'s str) -> Option<Renamed<'s>> {
        let Parts {
            stem,
            numbered,
            rest,
        } = parts(name)?;
        if self.kept.has(stem) {
            return None;
        }
        let next = &mut self.next[stem];
        let number = *self.numbers.entry(numbered).or_insert_with(|| {
            let number = *next;
            *next += 1;
            number
        });
        let stem = STEMS[stem].text;
        Some(Renamed { stem, number, rest })
    }
}

/// A name with its new number.
pub struct Renamed<'s> {
    stem: &'static str,
    number: u32,
    rest: &'s str,
}

impl fmt::Display for Renamed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.stem, self.number, self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(kept: Stems, names: &str) -> String {
        let mut numbers = Numbers::new(kept);
        let names = names.split(' ').map(|name| match numbers.renamed(name) {
            Some(new) => new.to_string(),
            None => name.to_owned(),
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_are_numbered_as_they_occur() {
        assert_eq!(
            renamed(
                Stems::default(),
                "$L__BB12_3 $L__BB12_1 $L__BB4_3 $L__BB12_3 BB12_3 __local_depot7 \
                 $str$4 $str $str1 _$_str_$_2 _$_str __unnamed_9 prototype_3 $L__tmp88"
            ),
            "$L__BB0_3 $L__BB0_1 $L__BB1_3 $L__BB0_3 BB0_3 __local_depot0 \
             $str0 $str1 $str2 _$_str0 _$_str1 __unnamed_0 prototype_0 $L__tmp0"
        );
    }

    #[test]
    fn other_names_stay() {
        let names = "BB BBx1 $L__BB $L__BB1x $L__BB1_ $L__BB1_2_3 $strange _$_str_$_ BLOCK1 %r1 \
                     __unnamed_ prototype __local_depot";
        assert_eq!(renamed(Stems::default(), names), names);
    }

    #[test]
    fn a_shape_stays_as_a_whole() {
        let kept = Stems::of_name("BB5").join(Stems::of_range("__unn"));
        assert_eq!(
            renamed(kept, "BB7_1 __unnamed_3 LBB7_1"),
            "BB7_1 __unnamed_3 LBB0_1"
        );
        assert_eq!(Stems::of_name("k"), Stems::default());
        assert_eq!(Stems::of_range("r"), Stems::default());
    }
}
